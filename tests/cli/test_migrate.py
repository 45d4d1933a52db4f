"""`coatcheck migrate`."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from tests.cli.processes import run_to_end


def test_new_database_is_created_and_migrated(tmp_path: Path) -> None:
    ended = run_to_end("migrate", "--database", "sqlite:///new/jobs.db", folder=tmp_path)

    assert ended.returncode == 0
    assert ended.stderr == ""
    assert ended.stdout.splitlines()[0] == "applied 001 jobs"
    assert ended.stdout.splitlines()[-1] == "the database is up to date"
    assert (tmp_path / "new" / "jobs.db").exists()


def test_second_migration_applies_nothing(tmp_path: Path) -> None:
    run_to_end("migrate", "--database", "sqlite:///jobs.db", folder=tmp_path)

    ended = run_to_end("migrate", "--database", "sqlite:///jobs.db", folder=tmp_path)

    assert ended.returncode == 0
    assert ended.stdout == "the database is up to date\n"


def test_database_is_read_from_environment_and_config_file(tmp_path: Path) -> None:
    (tmp_path / "coatcheck.toml").write_text('database = "sqlite:///from-file.db"\n')

    run_to_end("migrate", "--config", "coatcheck.toml", folder=tmp_path)
    run_to_end("migrate", folder=tmp_path, COATCHECK_DATABASE="sqlite:///from-environment.db")
    run_to_end("migrate", folder=tmp_path, JOB_DB_PATH="from-alias.db")

    made = {path.name for path in tmp_path.glob("*.db")}
    assert made == {"from-file.db", "from-environment.db", "from-alias.db"}


@pytest.mark.parametrize("size", [3, 5000])
def test_file_that_is_not_a_database_is_not_changed(tmp_path: Path, size: int) -> None:
    garbage = (b"this is my diary, not a database. " * 200)[:size]
    (tmp_path / "diary").write_bytes(garbage)

    ended = run_to_end("migrate", "--database", "sqlite:///diary", folder=tmp_path)

    assert ended.returncode == 78
    assert ended.stdout == ""
    [line] = ended.stderr.splitlines()
    assert line.startswith("coatcheck: ")
    assert "diary is not a SQLite database" in line
    assert (tmp_path / "diary").read_bytes() == garbage


def test_database_of_a_newer_release_is_not_changed(tmp_path: Path) -> None:
    run_to_end("migrate", "--database", "sqlite:///jobs.db", folder=tmp_path)
    connection = apsw.Connection(str(tmp_path / "jobs.db"))
    connection.execute("PRAGMA user_version = 9999")
    connection.close()

    ended = run_to_end("migrate", "--database", "sqlite:///jobs.db", folder=tmp_path)

    assert ended.returncode == 78
    [line] = ended.stderr.splitlines()
    assert "a newer Coatcheck has migrated it" in line


def test_database_of_another_program_is_rejected_in_one_line(tmp_path: Path) -> None:
    connection = apsw.Connection(str(tmp_path / "other.db"))
    connection.execute("CREATE TABLE jobs (title TEXT)")
    connection.close()

    ended = run_to_end("migrate", "--database", "sqlite:///other.db", folder=tmp_path)

    assert ended.returncode == 78
    [line] = ended.stderr.splitlines()
    assert line.startswith("coatcheck: ")


def test_folder_is_rejected_as_database(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()

    ended = run_to_end("migrate", "--database", "sqlite:///folder", folder=tmp_path)

    assert ended.returncode == 78
    [line] = ended.stderr.splitlines()
    assert line.startswith("coatcheck: ")
