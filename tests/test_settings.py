import dataclasses
import os
from pathlib import Path
from typing import Any

import pytest

from coatcheck.errors import ConfigurationError
from coatcheck.settings import Settings, load_settings, read_tables

DEFAULTS = Settings()
# Another value for each setting, as text in the environment and as a value.
OTHERS: dict[str, tuple[str, Any]] = {
    "blobs": ("s3://bucket/folder", "s3://bucket/folder"),
    "encryption_keys": ("file:/run/secrets/keys", "file:/run/secrets/keys"),
    "database": ("sqlite:////srv/jobs.db", "sqlite:////srv/jobs.db"),
    "schema": ("jobs", "jobs"),
    "listen": ("postgresql://db/jobs", "postgresql://db/jobs"),
    "connections": ("4", 4),
    "profile": ("production", "production"),
    "egress_allow": ("10.0.0.0/8,hooks.example", "10.0.0.0/8,hooks.example"),
    "webhook_secret": ("file:/run/secrets/webhooks", "file:/run/secrets/webhooks"),
    "pepper": ("file:/run/secrets/pepper", "file:/run/secrets/pepper"),
    "cors_origins": ("https://a.example,https://b.example", "https://a.example,https://b.example"),
    "host": ("0.0.0.0", "0.0.0.0"),
    "port": ("9000", 9000),
    "concurrency": ("3", 3),
    "processes": ("2", 2),
    "process_jobs": ("50", 50),
    "lease_s": ("7.5", 7.5),
    "sweep_s": ("2", 2.0),
    "drain_s": ("0", 0.0),
    "hang_s": ("0", 0.0),
    "grace_s": ("1", 1.0),
    "poll_s": ("0.5", 0.5),
    "longest_poll_s": ("45", 45.0),
    "sandbox_uids": ("70000-70999", "70000-70999"),
    "mcp_wait_s": ("0", 0.0),
    "body_min_rate": ("2048", 2048),
    "body_grace_s": ("10", 10.0),
    "tenant_uploads": ("4", 4),
    "tenant_requests": ("100", 100),
    "audit_days": ("30", 30.0),
    "tenant_queues": ("10", 10),
    "tenant_records": ("20", 20),
    "log_format": ("json", "json"),
    "log_level": ("debug", "debug"),
}


def config(tmp_path: Path, text: str) -> str:
    path = tmp_path / "coatcheck.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_nothing_needs_to_be_set() -> None:
    settings = load_settings({}, {})
    assert settings == DEFAULTS
    assert settings.database == "sqlite:///data/coatcheck.db"
    assert (settings.host, settings.port) == ("127.0.0.1", 8080)
    assert (settings.lease_s, settings.sweep_s, settings.drain_s) == (30, 5, 30)


def test_flags_win_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    path = config(tmp_path, "port = 1001\nlease_s = 11\nsweep_s = 12\n")
    environment = {"COATCHECK_CONFIG": path, "COATCHECK_PORT": "1002", "COATCHECK_LEASE_S": "22"}
    settings = load_settings({"port": 1003}, environment)
    assert (settings.port, settings.lease_s, settings.sweep_s) == (1003, 22, 12)
    assert settings.drain_s == DEFAULTS.drain_s


def test_a_flag_that_was_not_given_does_not_count() -> None:
    settings = load_settings({"port": None, "host": None}, {"COATCHECK_PORT": "1002"})
    assert (settings.port, settings.host) == (1002, "127.0.0.1")


def test_a_flag_may_name_the_file(tmp_path: Path) -> None:
    path = config(tmp_path, "port = 1001\n")
    assert load_settings({"config": path}, {"COATCHECK_CONFIG": "/nowhere"}).port == 1001


def test_every_setting_is_named_here() -> None:
    # The file cannot name itself.
    assert {*OTHERS, "config"} == {field.name for field in dataclasses.fields(Settings)}


@pytest.mark.parametrize("name", OTHERS)
def test_every_setting_has_its_name_in_the_environment(name: str) -> None:
    text, value = OTHERS[name]
    settings = load_settings({}, {f"COATCHECK_{name.upper()}": text})
    assert settings == dataclasses.replace(DEFAULTS, **{name: value})
    assert type(getattr(settings, name)) is type(value)


@pytest.mark.parametrize("name", OTHERS)
def test_every_setting_has_its_name_in_the_file(name: str, tmp_path: Path) -> None:
    _, value = OTHERS[name]
    text = f'"{value}"' if isinstance(value, str) else value
    path = config(tmp_path, f"{name} = {text}\n")
    settings = load_settings({"config": path}, {})
    assert settings == dataclasses.replace(DEFAULTS, config=path, **{name: value})


def test_the_process_environment_is_read_unless_another_is_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in [name for name in os.environ if name.startswith("COATCHECK_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("COATCHECK_PORT", "4321")
    assert load_settings().port == 4321
    assert load_settings({}, {}).port == 8080


# --- the name that existing deployments use


@pytest.mark.parametrize(
    ("path", "url"),
    [("jobs.db", "sqlite:///jobs.db"), ("/var/lib/jobs.db", "sqlite:////var/lib/jobs.db")],
)
# R14: the foreign name of the database.
def test_job_db_path_names_the_database_where_nothing_else_does(path: str, url: str) -> None:
    assert load_settings({}, {"JOB_DB_PATH": path}).database == url


def test_our_own_name_wins_over_job_db_path(tmp_path: Path) -> None:
    both = {"JOB_DB_PATH": "theirs.db", "COATCHECK_DATABASE": "sqlite:///ours.db"}
    assert load_settings({}, both).database == "sqlite:///ours.db"
    flags = {"database": "sqlite:///flag.db"}
    assert load_settings(flags, {"JOB_DB_PATH": "theirs.db"}).database == "sqlite:///flag.db"
    path = config(tmp_path, 'database = "sqlite:///file.db"\n')
    settings = load_settings({"config": path}, {"JOB_DB_PATH": "theirs.db"})
    assert settings.database == "sqlite:///file.db"


@pytest.mark.parametrize("name", ["JOB_POLL_INTERVAL_MS", "SUPERMODEL_JOB_POLL_INTERVAL_MS"])
# R15, G16: the poll interval, by foreign names.
def test_a_poll_interval_of_others_is_the_net_below_the_wake_ups(name: str) -> None:
    assert load_settings({}, {name: "100"}).poll_s == 0.1
    assert load_settings({}, {name: "100", "COATCHECK_POLL_S": "3"}).poll_s == 3
    with pytest.raises(ConfigurationError, match=name):
        load_settings({}, {name: "often"})


# G17: the longest poll interval while the store fails.
def test_the_longest_poll_interval_of_others_is_ours() -> None:
    name = "SUPERMODEL_JOB_MAX_POLL_INTERVAL_MS"
    assert load_settings({}, {}).longest_poll_s == 30
    assert load_settings({}, {name: "4000"}).longest_poll_s == 4
    assert load_settings({}, {name: "4000", "COATCHECK_LONGEST_POLL_S": "9"}).longest_poll_s == 9
    with pytest.raises(ConfigurationError, match=name):
        load_settings({}, {name: "seldom"})


# G15: how many jobs a worker runs in processes, by a foreign name.
def test_the_concurrency_of_others_is_that_of_processes() -> None:
    name = "SUPERMODEL_JOB_CONCURRENCY"
    assert load_settings({}, {name: "4"}).process_slots() == 4
    assert load_settings({}, {name: "4", "COATCHECK_PROCESSES": "3"}).process_slots() == 3
    with pytest.raises(ConfigurationError, match=name):
        load_settings({}, {name: "0"})


# --- bad values, each with a sentence that says what is wrong


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("PORT", "http", "COATCHECK_PORT must be of type int, not 'http'"),
        ("PORT", "80.5", "COATCHECK_PORT must be of type int"),
        ("PORT", "", "COATCHECK_PORT must be of type int, not ''"),
        ("PORT", "-1", "port must be between 0 and 65535, not -1"),
        ("PORT", "65536", "port must be between 0 and 65535"),
        ("CONCURRENCY", "many", "COATCHECK_CONCURRENCY must be of type int"),
        ("CONCURRENCY", "-1", "concurrency must not be negative"),
        ("LEASE_S", "soon", "COATCHECK_LEASE_S must be of type float, not 'soon'"),
        ("LEASE_S", "0", "lease_s must be more than 0"),
        ("SWEEP_S", "-5", "sweep_s must be more than 0, not -5"),
        ("POLL_S", "0", "poll_s must be more than 0"),
        ("DRAIN_S", "-1", "drain_s must not be negative"),
        ("GRACE_S", "-0.1", "grace_s must not be negative"),
        ("MCP_WAIT_S", "-1", "mcp_wait_s must not be negative"),
        ("BODY_MIN_RATE", "-1", "body_min_rate must not be negative"),
        ("TENANT_UPLOADS", "0", "tenant_uploads must be more than 0, not 0"),
        ("AUDIT_DAYS", "0", "audit_days must be more than 0"),
        ("LOG_FORMAT", "xml", "log_format must be json, text or auto, not 'xml'"),
    ],
)
def test_a_bad_value_in_the_environment(name: str, text: str, says: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{says}"):
        load_settings({}, {f"COATCHECK_{name}": text})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("port = 'http'", "port must be of type int, not 'http'"),
        ("port = 80.5", "port must be of type int, not 80.5"),
        ("port = true", "port must be of type int, not True"),
        ("host = 5", "host must be of type str, not 5"),
        ("lease_s = false", "lease_s must be of type float, not False"),
        ("lease_s = [30]", "lease_s must be of type float"),
        ("database = 2020-01-01", "database must be of type str"),
        ("lease_s = 0", "lease_s must be more than 0"),
        (
            "leases = 30",
            "unknown setting 'leases'; known settings: audit_days, blobs, body_grace_s,",
        ),
        ("[server]\nport = 80", "unknown setting 'server'"),
        ("config = 'other.toml'", "unknown setting 'config'"),
        ("port = ", "is not valid TOML"),
        ("port = 80\nport = 81", "is not valid TOML"),
    ],
)
def test_a_bad_value_in_the_file_is_named_with_the_file(
    tmp_path: Path, text: str, says: str
) -> None:
    path = config(tmp_path, text)
    with pytest.raises(ConfigurationError) as caught:
        load_settings({"config": path}, {})
    assert says in str(caught.value)
    assert path in str(caught.value) or "more than 0" in says


def test_a_table_of_a_surface_is_no_setting(tmp_path: Path) -> None:
    path = config(tmp_path, 'port = 9\n[[proxy]]\nmatch = "GET /x"\n')
    for settings in (
        load_settings({"config": path}, {}),
        load_settings({}, {"COATCHECK_CONFIG": path}),
    ):
        assert (settings.port, settings.config) == (9, path)
        assert read_tables(settings, "proxy") == [{"match": "GET /x"}]
    assert read_tables(Settings(), "proxy") == []


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(ConfigurationError, match="cannot read the config file /nowhere/at_all"):
        load_settings({"config": "/nowhere/at_all"}, {})


def test_a_file_that_is_not_text(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigurationError, match="is not valid TOML"):
        load_settings({"config": str(tmp_path / "binary")}, {})


@pytest.mark.parametrize(
    ("name", "text"),
    [
        *((name, "nan") for name in ("lease_s", "sweep_s", "poll_s", "drain_s", "grace_s")),
        *((name, "inf") for name in ("lease_s", "sweep_s", "poll_s")),
    ],
)
def test_a_number_of_seconds_is_a_real_number(name: str, text: str) -> None:
    with pytest.raises(ConfigurationError, match=name):
        load_settings({}, {f"COATCHECK_{name.upper()}": text})


def test_a_level_of_logging_that_does_not_exist() -> None:
    with pytest.raises(ConfigurationError, match="log_level"):
        load_settings({}, {"COATCHECK_LOG_LEVEL": "loud"})


# --- the value


def test_settings_cannot_be_changed() -> None:
    settings: Any = Settings()
    with pytest.raises(dataclasses.FrozenInstanceError):
        settings.port = 1


def test_a_worker_has_eight_slots_a_core_unless_told() -> None:
    assert Settings(concurrency=3).slots == 3
    assert Settings().slots == 8 * (os.cpu_count() or 1)
