"""Permanent failures of `coatcheck serve`: one clear message, exit code 78, no restart."""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path

import pytest

from tests.cli.processes import run_to_end

MODES: tuple[list[str], ...] = ([], ["--no-worker"], ["--in-process"])
in_every_mode = pytest.mark.parametrize(
    "mode", MODES, ids=["supervised", "no-worker", "in-process"]
)


def message(ended: subprocess.CompletedProcess[str]) -> str:
    """Check that a command ended for a wrong configuration, and return what it said of it."""
    assert ended.returncode == 78, ended.stderr
    said = [line for line in ended.stderr.splitlines() if line.startswith("coatcheck: ")]
    # Each of the two supervised processes may say it once; more would be a restart.
    assert said
    assert len(said) <= 2
    assert len(set(said)) == 1
    return said[0]


@in_every_mode
def test_missing_module(tmp_path: Path, mode: list[str]) -> None:
    ended = run_to_end("serve", "no_such_tasks:app", "--port", "0", *mode, folder=tmp_path)

    assert "there is no module 'no_such_tasks' here" in message(ended)
    assert "Traceback" not in ended.stderr


def test_missing_file(tmp_path: Path) -> None:
    ended = run_to_end("serve", "jobs/none.py:app", "--port", "0", folder=tmp_path)

    assert "there is no module 'none' here" in message(ended)
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("shop", "'shop' does not name an app; write module:app"),
        ("shop:", "'shop:' does not name an app"),
        (":app", "':app' does not name an app"),
        ("shop:missing", "'shop:missing' should be a coatcheck.App, but is nothing"),
        ("shop:name", "'shop:name' should be a coatcheck.App, but is a str"),
    ],
)
def test_reference_that_is_not_an_app(tmp_path: Path, reference: str, said: str) -> None:
    (tmp_path / "shop.py").write_text("name = 'a text'\n")

    ended = run_to_end("serve", reference, "--port", "0", "--no-worker", folder=tmp_path)

    assert said in message(ended)
    assert "Traceback" not in ended.stderr


@in_every_mode
def test_module_that_raises_shows_its_traceback_and_is_not_restarted(
    tmp_path: Path, mode: list[str]
) -> None:
    (tmp_path / "shop.py").write_text("def build():\n    return 1 / 0\n\napp = build()\n")

    ended = run_to_end("serve", "shop:app", "--port", "0", *mode, folder=tmp_path)

    assert "shop:app could not be imported" in message(ended)
    assert "return 1 / 0" in ended.stderr
    assert "ZeroDivisionError" in ended.stderr
    assert ended.stderr.count("Traceback") <= 2


def test_module_that_exits_is_not_restarted(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text("import sys\nsys.exit('use the other file')\n")

    # Alone, as the supervisor starts it: it stops at 78 and tries again at anything else.
    ended = run_to_end("serve", "shop:app", "--port", "0", "--no-worker", folder=tmp_path)

    assert "shop:app could not be imported" in message(ended)
    assert "use the other file" in ended.stderr


def test_syntax_error_shows_its_position(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text("app = (\n")

    ended = run_to_end("serve", "shop:app", "--port", "0", "--no-worker", folder=tmp_path)

    assert "shop:app could not be imported" in message(ended)
    assert "SyntaxError" in ended.stderr


@pytest.mark.parametrize("missing", ["no_such_library", "sho"])
def test_missing_import_of_a_module_is_named(tmp_path: Path, missing: str) -> None:
    (tmp_path / "shop.py").write_text(f"import {missing}\n")

    ended = run_to_end("serve", "shop:app", "--port", "0", "--no-worker", folder=tmp_path)

    assert "shop:app could not be imported" in message(ended)
    assert f"No module named '{missing}'" in ended.stderr


def test_invalid_kind_declaration_is_explained(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(
        "import coatcheck\napp = coatcheck.App()\n@app.job(timeout='soon')\ndef build(ctx): ...\n"
    )

    ended = run_to_end("serve", "shop:app", "--port", "0", "--no-worker", folder=tmp_path)

    assert "'soon' is not a duration" in message(ended)


@in_every_mode
def test_port_in_use(tmp_path: Path, app_reference: str, mode: list[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ended = run_to_end("serve", app_reference, "--port", port, *mode, folder=tmp_path)

    assert f"cannot listen on 127.0.0.1 port {port}: Address already in use" in message(ended)
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "jobs.example", ""])
def test_public_address_without_keys_is_rejected(
    tmp_path: Path, app_reference: str, host: str
) -> None:
    ended = run_to_end("serve", app_reference, "--host", host, "--port", "0", folder=tmp_path)

    said = message(ended)
    assert f"refusing to listen on {host}: there are no API keys" in said
    assert "127.0.0.1" in said
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("COATCHECK_LEASE_S", "soon", "COATCHECK_LEASE_S must be of type float, not 'soon'"),
        ("COATCHECK_LEASE_S", "0", "lease_s must be more than 0"),
        ("COATCHECK_LEASE_S", "nan", "lease_s"),
        ("COATCHECK_DRAIN_S", "-1", "drain_s must not be negative"),
        ("COATCHECK_CONCURRENCY", "1.5", "COATCHECK_CONCURRENCY must be of type int"),
        ("COATCHECK_PORT", "65536", "port must be between 0 and 65535"),
        ("COATCHECK_HOST", "0.0.0.0", "refusing to listen on 0.0.0.0"),
        ("COATCHECK_LOG_FORMAT", "xml", "log_format must be json, text or auto, not 'xml'"),
        ("COATCHECK_LOG_LEVEL", "loud", "log_level"),
        ("COATCHECK_CONFIG", "missing.toml", "cannot read the config file missing.toml"),
        ("COATCHECK_CONFIG", "unknown.toml", "unknown.toml: unknown setting 'prot'"),
    ],
)
def test_invalid_setting(
    tmp_path: Path, app_reference: str, name: str, value: str, said: str
) -> None:
    (tmp_path / "unknown.toml").write_text("prot = 1\n")

    # A taken port ends what a wrong setting should have ended.
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = [] if name == "COATCHECK_PORT" else ["--port", str(taken.getsockname()[1])]
        ended = run_to_end("serve", app_reference, *port, folder=tmp_path, **{name: value})

    assert said in message(ended)
    assert "Traceback" not in ended.stderr


@in_every_mode
def test_unusable_database_is_named_without_its_password(
    tmp_path: Path, app_reference: str, mode: list[str]
) -> None:
    url = "mysql://ada:swordfish@db.example/jobs"
    ended = run_to_end(
        "serve", app_reference, "--port", "0", "--database", url, *mode, folder=tmp_path
    )

    said = message(ended)
    assert "mysql://" in said
    assert "sqlite:///path/to/jobs.db" in said
    assert "swordfish" not in ended.stdout + ended.stderr


@pytest.mark.parametrize(
    "url",
    [
        "mysql://ada:sword@swordfish@db.example/jobs",
        "sqlite://ada:swordfish@db.example",
        "mysql://db.example/jobs?user=ada&password=swordfish",
        "host=db.example user=ada password=swordfish",
        "ada:swordfish@db.example",
    ],
)
def test_database_password_is_never_printed(tmp_path: Path, url: str) -> None:
    ended = run_to_end("migrate", "--database", url, folder=tmp_path)

    assert "sqlite:///path/to/jobs.db" in message(ended)
    assert "swordfish" not in ended.stdout + ended.stderr


def test_invalid_database_stops_the_server_without_restarts(
    tmp_path: Path, app_reference: str
) -> None:
    (tmp_path / "diary").write_bytes(b"this is my diary, not a database")

    ended = run_to_end(
        "serve", app_reference, "--port", "0", "--database", "sqlite:///diary", folder=tmp_path
    )

    assert "diary is not a SQLite database" in message(ended)
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            {"COATCHECK_EGRESS_ALLOW": "10.0.0.0/99"},
            "egress_allow: '10.0.0.0/99' is not a host name",
        ),
        ({"COATCHECK_WEBHOOK_SECRET": "swordfish"}, "webhook_secret: a secret is whsec_ and"),
        (
            {"COATCHECK_WEBHOOK_SECRET": "swordfish", "COATCHECK_PROFILE": "production"},
            "webhook_secret: in production it is a reference",
        ),
    ],
)
def test_invalid_webhook_settings(
    tmp_path: Path, app_reference: str, settings: dict[str, str], said: str
) -> None:
    command = ("worker", app_reference)
    ended = run_to_end(*command, folder=tmp_path, **settings)

    assert said in message(ended)
    assert "swordfish" not in ended.stdout + ended.stderr
