"""`coatcheck graph`."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from coatcheck.cli.api import Api
from coatcheck.surfaces.graphs.constants import LARGEST_SOURCE
from coatcheck.surfaces.graphs.diagrams import MOST_MODULES, as_dot, as_mermaid
from coatcheck.surfaces.graphs.module_graph import module_graph
from tests.cli.processes import Running
from tests.cli.shell import Shell, write_files

CODE = {
    "shop/__init__.py": "",
    "shop/till.py": "from shop import prices\n\n\ndef pay(what):\n    return prices.price(what)\n",
    "shop/prices.py": "from shop import till\n\n\ndef price(what):\n    return len(what)\n\n\n"
    "def total(all):\n    return sum(price(each) for each in all), till\n",
    "ignored.py": "import shop\n",
    ".gitignore": "ignored.py\n",
}
SHORT = ("cart.items", "cart", "users")


@pytest.fixture(scope="module")
def server(plain_server: Running) -> Running:
    return plain_server


@pytest.fixture
def code(tmp_path: Path) -> Path:
    return write_files(tmp_path / "code", CODE)


def run(server: Running, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return Shell(server.url(), folder, patience_s=100).run("graph", *arguments)


def test_graph_of_a_folder_with_summary(server: Running, code: Path, tmp_path: Path) -> None:
    done = run(server, tmp_path, "code")
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "graph.json").read_text())
    assert {node["file"] for node in found["nodes"] if node["kind"] == "module"} == {
        "shop/__init__.py",
        "shop/prices.py",
        "shop/till.py",
    }
    assert "4 files, " in done.stderr
    assert "(skipped: 1 ignored)" in done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["2", "shop.prices.price"] in lines
    assert ["shop.prices,", "shop.till"] in lines  # a circle


def test_graph_can_be_written_to_stdout(server: Running, code: Path, tmp_path: Path) -> None:
    done = run(server, tmp_path, "code", "--kind", "call", "-o", "-")
    assert {edge["kind"] for edge in json.loads(done.stdout)["edges"]} >= {"calls"}
    assert "shop.prices.price" in done.stderr


def test_modules_can_be_drawn(server: Running, code: Path, tmp_path: Path) -> None:
    done = run(server, tmp_path, "code", "--kind", "dependency", "-o", "modules.svg")
    assert done.returncode == 0, done.stderr
    picture = (tmp_path / "modules.svg").read_text()
    assert picture.startswith("<svg")
    assert "shop.till" in picture
    assert run(server, tmp_path, "code", "--format", "dot").returncode == 0
    assert '"shop/till.py" -> "shop/prices.py"' in (tmp_path / "graph.dot").read_text()


def test_job_is_submitted_through_the_graphs_surface(  # G10
    server: Running, code: Path, tmp_path: Path
) -> None:
    assert run(server, tmp_path, "code").returncode == 0
    with Api(server.url()) as api:
        [job] = api.list(kind="graph", limit=1).jobs
        assert job["surface"] == "graphs"


def test_errors_are_reported(server: Running, code: Path, tmp_path: Path) -> None:
    assert run(server, tmp_path, "nowhere").returncode == 2
    assert "--format" in run(server, tmp_path, "code", "-o", "graph.txt").stderr
    (tmp_path / "empty").mkdir()
    assert "no files to make a graph of" in run(server, tmp_path, "empty").stderr


def test_too_many_modules_cannot_be_drawn(server: Running, tmp_path: Path) -> None:
    for number in range(MOST_MODULES + 1):
        (tmp_path / f"m{number}.py").write_text("x = 1\n")
    done = run(server, tmp_path, ".", "-o", "modules.svg")
    assert (done.returncode, "--format dot" in done.stderr) == (1, True)
    assert not (tmp_path / "modules.svg").exists()


def test_names_cannot_inject_diagram_syntax() -> None:
    name = 'a"]; click x "javascript:alert(1)\n'
    node = {"id": "a", "kind": "module", "file": name, "qualified_name": name}
    graph = module_graph([node], [])
    assert as_mermaid(graph).count('"') == 2
    assert len(as_mermaid(graph).splitlines()) == 2
    assert '"a\\"]; click x \\"javascript:alert(1) "' in as_dot(graph)


def test_common_prefix_of_names_is_not_drawn() -> None:
    names = {"a.py": "shop.cart.items", "b.py": "shop.cart", "c.py": "shop.users"}
    nodes = [
        {"id": name, "kind": "module", "file": file, "qualified_name": name}
        for file, name in names.items()
    ]
    drawn = as_mermaid(module_graph(nodes, [])).splitlines()
    assert drawn == ["flowchart LR", *(f'  m{n}["{s}"]' for n, s in enumerate(SHORT))]


def test_pack_limit_equals_the_parser_limit() -> None:
    from coatcheck.codegraph.source import MAX_FILE_BYTES  # noqa: PLC0415

    assert LARGEST_SOURCE == MAX_FILE_BYTES
