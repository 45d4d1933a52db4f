"""`coatcheck doctor`: its findings; it changes nothing and never crashes."""

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


def test_healthy_installation_has_no_problems(tmp_path: Path, app_reference: str) -> None:
    with running("serve", app_reference, "--port", "0", folder=tmp_path) as server:
        server.stderr.wait_for("worker started")
        found = diagnose(tmp_path, "--url", server.url())

    assert found["ok"] is True
    [(store, said)] = of_area(found, "store")
    assert (store, "data/coatcheck.db accepts writes" in said) == ("ok", True)
    assert of_area(found, "migrations") == [("ok", f"all {len(MIGRATIONS)} are applied")]
    assert of_area(found, "blobs") == [("ok", f"{tmp_path}/data/blobs accepts writes")]
    assert [level for level, _ in of_area(found, "server")] == ["ok"]
    [(level, worker)] = of_area(found, "workers")
    assert (level, "process_id" in worker) == ("ok", True)
    assert of_area(found, "queues") == [("ok", "no job is queued or running")]
    assert of_area(found, "clock") == [("ok", "the wall clock is steady")]
    assert {level for level, _ in of_area(found, "parts")} <= {"ok", "warning"}


def test_text_output_starts_each_line_with_its_level(shell: Shell, tmp_path: Path) -> None:
    run_to_end("migrate", folder=tmp_path)

    ended = shell.run("doctor")

    assert (ended.returncode, ended.stderr) == (0, "")
    *lines, empty, summary = ended.stdout.splitlines()
    assert all(line.split()[0] in ("ok", "warning", "problem") for line in lines if line[0] != " ")
    assert (empty, summary) == ("", "0 problem(s), 1 warning(s)")
    assert "no worker is running" in ended.stdout


def test_doctor_reports_the_sandbox_backend(tmp_path: Path) -> None:
    here = detect_sandbox()
    [(level, said)] = [
        each for each in of_area(diagnose(tmp_path), "parts") if each[1].startswith("programs run")
    ]
    assert said.startswith(f"programs run under {here.backend}: {here.says}")
    assert level == ("warning" if here.backend is SandboxBackend.RLIMITS else "ok")


def test_doctor_reports_sandbox_users_and_limits(tmp_path: Path) -> None:
    users = detect_users(detect_sandbox().backend)
    said = [words for _, words in of_area(diagnose(tmp_path), "parts")]
    if users.uids is None:
        assert any(words.startswith("programs share the server's uid") for words in said)
    else:
        assert f"each program has its own uid, from {users.uids}" in said
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
def test_sandbox_that_exposes_secrets_is_a_problem(
    tmp_path: Path, name: str, value: str, words: str
) -> None:
    ended = run_to_end("doctor", "--url", NOWHERE, folder=tmp_path, **{name: value})
    assert ended.returncode == 1
    assert words in ended.stdout


def test_doctor_reports_the_render_engine(tmp_path: Path) -> None:
    said = " ".join(words for _, words in of_area(diagnose(tmp_path), "parts"))
    assert "mermaid is drawn by merman" in said
    assert "mermaid could be drawn by chromium with Mermaid 11." in said


def test_missing_configured_render_engine_is_a_problem(tmp_path: Path) -> None:
    asked = {"RENDER_ENGINE": "chromium", "COATCHECK_RENDER_CHROMIUM": "/nowhere/chromium"}
    found = diagnose(tmp_path, **asked)
    [said] = [words for level, words in of_area(found, "parts") if level == "problem"]
    assert "needs a program at /nowhere/chromium" in said
    assert "report" not in said


def test_doctor_does_not_create_a_missing_database(tmp_path: Path) -> None:
    found = diagnose(tmp_path)

    assert of_area(found, "store")[0][0] == "warning"
    assert "does not exist yet" in of_area(found, "store")[0][1]
    assert list(tmp_path.iterdir()) == []


def test_unreachable_server_is_a_problem_only_if_named(tmp_path: Path) -> None:
    run_to_end("migrate", folder=tmp_path)

    named = diagnose(tmp_path, "--url", NOWHERE)

    assert of_area(named, "server") == [("problem", f"no server at {NOWHERE}")]
    assert [level for level, _ in of_area(named, "store")] == ["ok"]


def test_file_that_is_not_a_database_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "diary").write_bytes(b"this is my diary, not a database. " * 200)

    found = diagnose(tmp_path, "--database", "sqlite:///diary")

    [(level, said)] = of_area(found, "store")
    assert (level, "not a SQLite database" in said) == ("problem", True)
    assert of_area(found, "disk"), "the other checks are made all the same"


def test_damaged_database_is_a_problem(tmp_path: Path) -> None:
    run_to_end("migrate", "--database", "sqlite:///jobs.db", folder=tmp_path)
    content = bytearray((tmp_path / "jobs.db").read_bytes())
    content[100:] = b"\xff" * (len(content) - 100)
    (tmp_path / "jobs.db").write_bytes(content)

    found = diagnose(tmp_path, "--database", "sqlite:///jobs.db")

    assert of_area(found, "store")[0][0] == "problem"


def test_folder_instead_of_a_database_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()

    found = diagnose(tmp_path, "--database", "sqlite:///folder")

    assert of_area(found, "store")[0][0] == "problem"


def test_doctor_does_not_apply_pending_migrations(tmp_path: Path) -> None:
    connection = apsw.Connection(str(tmp_path / "jobs.db"))
    connection.execute("PRAGMA user_version = 0; CREATE TABLE other (x)")
    connection.close()

    found = diagnose(tmp_path, "--database", "sqlite:///jobs.db")

    [(level, said)] = of_area(found, "migrations")
    assert (level, said) == ("problem", f"not applied yet: {ALL}")
    connection = apsw.Connection(str(tmp_path / "jobs.db"))
    assert connection.execute("PRAGMA user_version").get == 0
    connection.close()


def test_database_of_a_newer_release_is_a_problem(tmp_path: Path) -> None:
    run_to_end("migrate", "--database", "sqlite:///jobs.db", folder=tmp_path)
    connection = apsw.Connection(str(tmp_path / "jobs.db"))
    connection.execute("PRAGMA user_version = 9999")
    connection.close()

    found = diagnose(tmp_path, "--database", "sqlite:///jobs.db")

    [(level, said)] = of_area(found, "store")
    assert (level, "a newer Coatcheck has migrated it" in said) == ("problem", True)


def test_stalled_queues_are_reported(tmp_path: Path, app_reference: str) -> None:
    arguments = ("serve", app_reference, "--port", "0", "--no-worker")
    with running(*arguments, folder=tmp_path) as server:
        shell = Shell(server.url(), tmp_path)
        shell.run("queues", "pause", "held")
        shell.run("submit", "echo", "1", "--queue", "held")
        found = diagnose(tmp_path, "--url", server.url())

    warnings = [said for level, said in of_area(found, "queues") if level == "warning"]
    assert any(said.startswith("queue 'held': 1 ready") and "paused" in said for said in warnings)
    assert "jobs of kind 'echo' are queued, but no running worker has that kind" in warnings
    assert of_area(found, "workers") == [("warning", "no worker is running: no job starts")]


def test_locked_store_times_out(tmp_path: Path) -> None:
    run_to_end("migrate", folder=tmp_path)
    with (tmp_path / "data" / "coatcheck.db.run" / "write.lock").open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = diagnose(tmp_path)

    [(level, said)] = of_area(found, "store")
    assert (level, "did not respond" in said) == ("problem", True)
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
def test_no_secret_is_printed(tmp_path: Path, settings: dict[str, str]) -> None:
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
def test_invalid_settings_are_a_problem_without_traceback(
    tmp_path: Path, settings: dict[str, str]
) -> None:
    found = diagnose(tmp_path, **settings)

    assert found["ok"] is False


def test_foreign_server_is_a_problem(tmp_path: Path) -> None:
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


def test_unusable_blob_store_is_a_problem(tmp_path: Path) -> None:
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
def test_doctor_reports_the_parser_sandbox(
    monkeypatch: pytest.MonkeyPatch, protections: Protections, level: Level, word: str
) -> None:
    monkeypatch.setattr(parts, "detect_protections", lambda: protections)
    found = parts._parser_sandbox()
    assert found.level is level
    assert word in found.message
