"""The examples on the built-in surfaces run."""

from __future__ import annotations

import json
import shutil
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from coatcheck import Client
from coatcheck.surfaces.tasks.runners import CommandPolicy
from tests.debian import program_of
from tests.surfaces.render.drawing.conftest import IN_A_BROWSER, INSTALLING_S

from .pages import ROOT, blocks, run_curl
from .test_examples import run_shell, serving

HOW_TO = ROOT / "docs/how-to"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("surfaces"), "--in-process") as url:
        yield url


def of(page: str, language: str) -> list[str]:
    return [block.text for block in blocks(HOW_TO / page) if block.language == language]


def test_draw_diagrams(server: str, tmp_path: Path) -> None:
    _, from_a_shell, over_http, _, _ = of("draw-diagrams.md", "sh")
    run_shell(from_a_shell, tmp_path, server)
    assert (tmp_path / "flow.png").read_bytes().startswith(b"\x89PNG")
    [shown] = of("draw-diagrams.md", "json")
    made = run_curl(over_http.strip().replace("http://127.0.0.1:8080", server)).json()
    job_id = made["jobId"]
    expected = {**json.loads(shown), "jobId": job_id, "statusUrl": f"/jobs/{job_id}"}
    assert made == expected
    with Client(server) as client:
        assert client.wait(job_id)["state"] == "succeeded"


@pytest.mark.parametrize("chosen", [pytest.param("chromium", marks=IN_A_BROWSER)])
def test_draw_formulas(chosen: str, tmp_path: Path) -> None:
    if program_of("chromium", "chromium", INSTALLING_S) is None:
        pytest.skip("there is no Chromium here, and Debian's cannot be installed")
    *_, serve, from_a_shell = of("draw-diagrams.md", "sh")
    assert serve.splitlines()[-1] == f"RENDER_ENGINE={chosen} coatcheck serve"
    with serving(tmp_path, "--in-process", RENDER_ENGINE=chosen) as url:
        run_shell(from_a_shell, tmp_path, url)
    assert (tmp_path / "formula.png").read_bytes().startswith(b"\x89PNG")


def test_graph_a_codebase(server: str, tmp_path: Path) -> None:
    _, from_a_shell, over_http = of("graph-a-codebase.md", "sh")
    assert "shop.prices.price" in run_shell(from_a_shell, tmp_path, server)
    assert ">till<" in (tmp_path / "modules.svg").read_text()
    shutil.make_archive(str(tmp_path / "shop"), "zip", tmp_path, "shop")
    submit, poll = over_http.strip().replace("http://127.0.0.1:8080", server).splitlines()
    [shown] = of("graph-a-codebase.md", "json")
    made = run_curl(submit, tmp_path)
    assert made.status_code == 202
    assert made.json() == {**json.loads(shown), "jobId": made.json()["jobId"]}
    with Client(server) as client:
        assert client.wait(made.json()["jobId"])["state"] == "succeeded"
    assert run_curl(poll, tmp_path).json()["result"]["stats"]["files"] == 2


def test_run_commands(server: str, tmp_path: Path) -> None:
    _, from_a_shell, over_http, _ = of("run-commands.md", "sh")
    assert run_shell(from_a_shell, tmp_path, server) == f"{sys.platform.capitalize()}\n"
    put, execute = over_http.strip().replace("http://127.0.0.1:8080", server).splitlines()
    assert run_curl(put).status_code == 200
    [shown] = of("run-commands.md", "json")
    ran = run_curl(execute).json()
    assert ran.keys() == json.loads(shown).keys()
    assert (ran["exitCode"], ran["stdout"]) == (0, "hello\n")


def test_the_policy_of_the_page_can_be_read(tmp_path: Path) -> None:
    [policy] = of("run-commands.md", "toml")
    path = tmp_path / "policy.toml"
    path.write_text(policy)
    assert tomllib.loads(policy)["default"] == "deny"
    found = CommandPolicy(path)
    assert found.check(["echo", "x"]) is None
    assert found.check(["git", "status", "-s"]) is None
    assert found.check(["curl", "x"]) is not None


@pytest.mark.timeout(300)
def test_ingest_documents(server: str, tmp_path: Path) -> None:
    _, from_a_shell, over_http, look = of("ingest-documents.md", "sh")
    said = run_shell(from_a_shell, tmp_path, server)
    assert said.startswith("1. notes/bread.md")
    form, text, search = over_http.strip().replace("http://127.0.0.1:8080", server).splitlines()
    made = run_curl(form, tmp_path)
    assert made.status_code == 202
    with Client(server) as client:
        for answer in (made, run_curl(text)):
            assert client.wait(answer.json()["id"])["state"] == "succeeded"
    shown, card = (json.loads(each) for each in of("ingest-documents.md", "json"))
    [found] = run_curl(search).json()["results"]
    [expected] = shown["results"]
    assert {**found, "score": 0, "document": found["document"]["title"]} == {
        **expected,
        "score": 0,
        "document": expected["document"]["title"],
    }
    told = look.replace("http://127.0.0.1:8080", server).replace("JOB_ID", made.json()["id"])
    seen = run_curl(told.strip()).json()
    assert [line["name"] for line in seen["steps"]] == [line["name"] for line in card["steps"]]
    assert seen.keys() == card.keys()
