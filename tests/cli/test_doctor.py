"""`coatcheck doctor`: what it finds, that it changes nothing, and that nothing can upset it."""

from __future__ import annotations

import fcntl
import subprocess
from pathlib import Path

import apsw
import pytest

from coatcheck.cli.doctor import parts
from coatcheck.cli.doctor.findings import Level
from coatcheck.sandbox import SandboxBackend, detect_sandbox
from coatcheck.sandbox.detect import detect_users
from coatcheck.sandbox.lockdown import Protections
from coatcheck.store.sqlite.database.schema import MIGRATIONS
from tests.cli.diagnosis import diagnose, of_area
from tests.cli.processes import run_to_end, running
from tests.cli.shell import Shell

ALL = ", ".join(f"{migration.number:03d} {migration.name}" for migration in MIGRATIONS)
# No server is there unless a test starts one.
NOWHERE = "http://127.0.0.1:1"


def test_where_all_is_well(tmp_path: Path, app_reference: str) -> None:
    with running("serve", app_reference, "--port", "0", folder=tmp_path) as server:
        server.stderr.wait_for("worker started")
        found = diagnose(tmp_path, "--url", server.url())

    assert found["ok"] is True
    [(store, said)] = of_area(found, "store")
    assert (store, "data/coatcheck.db takes writes" in said) == ("ok", True)
    assert of_area(found, "migrations") == [("ok", f"all {len(MIGRATIONS)} are applied")]
    assert of_area(found, "blobs") == [("ok", f"{tmp_path}/data/blobs takes writes")]
    assert [level for level, _ in of_area(found, "server")] == ["ok"]
    [(level, worker)] = of_area(found, "workers")
    assert (level, "process_id" in worker) == ("ok", True)
    assert of_area(found, "queues") == [("ok", "no jobs wait or run")]
    assert of_area(found, "clock") == [("ok", "the wall clock runs evenly")]
    assert {level for level, _ in of_area(found, "parts")} <= {"ok", "warning"}


def test_for_people_each_line_begins_with_its_level(shell: Shell, tmp_path: Path) -> None:
    run_to_end("migrate", folder=tmp_path)

    ended = shell.run("doctor")

    assert (ended.returncode, ended.stderr) == (0, "")
    *lines, empty, summary = ended.stdout.splitlines()
    assert all(line.split()[0] in ("ok", "warning", "problem") for line in lines if line[0] != " ")
    assert (empty, summary) == ("", "0 problem(s), 1 warning(s)")
    assert "no worker is running" in ended.stdout


def test_it_says_what_programs_run_under(tmp_path: Path) -> None:
    here = detect_sandbox()
    [(level, said)] = [
        each for each in of_area(diagnose(tmp_path), "parts") if each[1].startswith("programs run")
    ]
    assert said.startswith(f"programs run under {here.backend}: {here.says}")
    assert level == ("warning" if here.backend is SandboxBackend.RLIMITS else "ok")


def test_it_says_as_whom_programs_run_and_what_they_may_use(tmp_path: Path) -> None:
    users = detect_users(detect_sandbox().backend)
    said = [words for _, words in of_area(diagnose(tmp_path), "parts")]
    if users.uids is None:
        assert any(words.startswith("programs share the uid of the server") for words in said)
    else:
        assert f"each program has a uid of its own, from {users.uids}" in said
    assert any(words.startswith("seccomp: programs ") for words in said)
    assert any(words.startswith("a command may use 256 MiB of disk") for words in said)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("COATCHECK_CONFIG", "/usr/share/coatcheck.toml", "cannot read the config file"),
        ("COATCHECK_PEPPER", "file:/usr/share/pepper", "the secret of pepper is in /usr/share"),
        ("COATCHECK_SANDBOX_UIDS", "9-5", "sandbox_uids must be an ascending range"),
    ],
)
def test_a_sandbox_that_lets_programs_read_secrets_is_a_problem(
    tmp_path: Path, name: str, value: str, words: str
) -> None:
    ended = run_to_end("doctor", "--url", NOWHERE, folder=tmp_path, **{name: value})
    assert ended.returncode == 1
    assert words in ended.stdout


def test_it_says_which_engine_draws(tmp_path: Path) -> None:
    said = " ".join(words for _, words in of_area(diagnose(tmp_path), "parts"))
    assert "mermaid is drawn by merman" in said
    assert "mermaid could be drawn by chromium with Mermaid 11." in said


def test_an_engine_that_is_asked_for_and_missing_is_a_problem(tmp_path: Path) -> None:
    asked = {"RENDER_ENGINE": "chromium", "COATCHECK_RENDER_CHROMIUM": "/nowhere/chromium"}
    found = diagnose(tmp_path, **asked)
    [said] = [words for level, words in of_area(found, "parts") if level == "problem"]
    assert "needs a program at /nowhere/chromium" in said
    assert "report" not in said


def test_without_a_database_nothing_is_made(tmp_path: Path) -> None:
    found = diagnose(tmp_path)

    assert of_area(found, "store")[0][0] == "warning"
    assert "is not there yet" in of_area(found, "store")[0][1]
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_does_not_answer_is_a_problem_where_it_was_named(tmp_path: Path) -> None:
    run_to_end("migrate", folder=tmp_path)

    named = diagnose(tmp_path, "--url", NOWHERE)

    assert of_area(named, "server") == [("problem", f"nothing answers at {NOWHERE}")]
    assert [level for level, _ in of_area(named, "store")] == ["ok"]


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    (tmp_path / "diary").write_bytes(b"this is my diary, not a database. " * 200)

    found = diagnose(tmp_path, "--database", "sqlite:///diary")

    [(level, said)] = of_area(found, "store")
    assert (level, "not a SQLite database" in said) == ("problem", True)
    assert of_area(found, "disk"), "the other checks are made all the same"


def test_a_database_that_is_damaged(tmp_path: Path) -> None:
    run_to_end("migrate", "--database", "sqlite:///jobs.db", folder=tmp_path)
    content = bytearray((tmp_path / "jobs.db").read_bytes())
    content[100:] = b"\xff" * (len(content) - 100)
    (tmp_path / "jobs.db").write_bytes(content)

    found = diagnose(tmp_path, "--database", "sqlite:///jobs.db")

    assert of_area(found, "store")[0][0] == "problem"


def test_a_folder_where_a_database_should_be(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()

    found = diagnose(tmp_path, "--database", "sqlite:///folder")

    assert of_area(found, "store")[0][0] == "problem"


def test_migrations_that_are_pending_stay_so(tmp_path: Path) -> None:
    connection = apsw.Connection(str(tmp_path / "jobs.db"))
    connection.execute("PRAGMA user_version = 0; CREATE TABLE other (x)")
    connection.close()

    found = diagnose(tmp_path, "--database", "sqlite:///jobs.db")

    [(level, said)] = of_area(found, "migrations")
    assert (level, said) == ("problem", f"not applied yet: {ALL}")
    connection = apsw.Connection(str(tmp_path / "jobs.db"))
    assert connection.execute("PRAGMA user_version").get == 0
    connection.close()


def test_a_database_of_a_newer_release(tmp_path: Path) -> None:
    run_to_end("migrate", "--database", "sqlite:///jobs.db", folder=tmp_path)
    connection = apsw.Connection(str(tmp_path / "jobs.db"))
    connection.execute("PRAGMA user_version = 9999")
    connection.close()

    found = diagnose(tmp_path, "--database", "sqlite:///jobs.db")

    [(level, said)] = of_area(found, "store")
    assert (level, "a newer Coatcheck has migrated it" in said) == ("problem", True)


def test_queues_that_stand_still_are_named(tmp_path: Path, app_reference: str) -> None:
    arguments = ("serve", app_reference, "--port", "0", "--no-worker")
    with running(*arguments, folder=tmp_path) as server:
        shell = Shell(server.url(), tmp_path)
        shell.run("queues", "pause", "held")
        shell.run("submit", "echo", "1", "--queue", "held")
        found = diagnose(tmp_path, "--url", server.url())

    warnings = [said for level, said in of_area(found, "queues") if level == "warning"]
    assert any(said.startswith("queue 'held': 1 ready") and "paused" in said for said in warnings)
    assert "jobs of kind 'echo' wait, and no running worker has that kind" in warnings
    assert of_area(found, "workers") == [("warning", "no worker is running: jobs wait")]


def test_a_store_whose_lock_is_held_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    run_to_end("migrate", folder=tmp_path)
    with (tmp_path / "data" / "coatcheck.db.run" / "write.lock").open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = diagnose(tmp_path)

    [(level, said)] = of_area(found, "store")
    assert (level, "no answer" in said) == ("problem", True)
    assert of_area(found, "parts"), "the other checks are made all the same"


@pytest.mark.parametrize(
    "settings",
    [
        {"COATCHECK_DATABASE": "postgresql://ada:swordfish@127.0.0.1:1/jobs"},
        {"COATCHECK_DATABASE": "mysql://ada:swordfish@db.example/jobs"},
        {"COATCHECK_DATABASE": "host=db password=swordfish"},
        {"COATCHECK_LISTEN": "postgresql://ada:swordfish@127.0.0.1:1/jobs"},
        {"COATCHECK_API_KEY": "ck_1_swordfish"},
        {"COATCHECK_WEBHOOK_SECRET": "whsec_swordfish"},
        {"COATCHECK_URL": "http://ada:swordfish@127.0.0.1:1"},
    ],
)
def test_no_secret_is_shown(tmp_path: Path, settings: dict[str, str]) -> None:
    for mode in ([], ["--json"]):
        ended = run_to_end("doctor", *mode, folder=tmp_path, **settings)

        assert ended.returncode in (0, 1)
        assert "swordfish" not in ended.stdout + ended.stderr
        assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    "settings",
    [
        {"COATCHECK_LEASE_S": "soon"},
        {"COATCHECK_CONFIG": "missing.toml"},
        {"COATCHECK_DATABASE": "file:/no/such/secret"},
        {"COATCHECK_URL": "nonsense"},
    ],
)
def test_settings_that_make_no_sense_are_a_problem_and_no_traceback(
    tmp_path: Path, settings: dict[str, str]
) -> None:
    found = diagnose(tmp_path, **settings)

    assert found["ok"] is False


def test_a_server_of_somebody_else(tmp_path: Path) -> None:
    command = ["python3", "-u", "-m", "http.server", "0", "--bind", "127.0.0.1"]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as other:
        try:
            assert other.stdout is not None
            port = other.stdout.readline().split(" port ")[1].split()[0]
            found = diagnose(tmp_path, "--url", f"http://127.0.0.1:{port}")
        finally:
            other.terminate()

    assert of_area(found, "server")[0][0] == "problem"


def test_a_place_for_blobs_that_cannot_be_one_is_a_problem(tmp_path: Path) -> None:
    run_to_end("migrate", folder=tmp_path)
    (tmp_path / "file").write_text("")

    found = diagnose(tmp_path, "--blobs", f"file://{tmp_path}/file/blobs")
    unknown = diagnose(tmp_path, "--blobs", "ftp://host/secret")

    [(level, said)] = of_area(found, "blobs")
    assert (level, "is a file" in said) == ("problem", True)
    [(level, said)] = of_area(unknown, "blobs")
    assert (level, "secret" in said) == ("problem", False)
    assert found["settings"]["blobs"] == f"file://{tmp_path}/file/blobs"
    assert unknown["settings"]["blobs"] == "ftp://(hidden)"


@pytest.mark.parametrize(
    ("protections", "level", "word"),
    [
        (
            Protections(files=True, network=True, signals=True, calls=True),
            Level.OK,
            "without files",
        ),
        (
            Protections(files=False, network=False, signals=False, calls=True),
            Level.WARNING,
            "read and",
        ),
        (Protections(files=True, network=True, signals=False, calls=True), Level.WARNING, "signal"),
        (
            Protections(files=True, network=True, signals=True, calls=False),
            Level.WARNING,
            "network",
        ),
    ],
)
def test_it_says_which_walls_stand_around_parsers(
    monkeypatch: pytest.MonkeyPatch, protections: Protections, level: Level, word: str
) -> None:
    monkeypatch.setattr(parts, "detect_protections", lambda: protections)
    found = parts._walls()
    assert found.level is level
    assert word in found.message
