"""`coatcheck migrate`."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from tests.cli.processes import run_to_end


def test_a_fresh_database_is_made_and_migrated(tmp_path: Path) -> None:
    ended = run_to_end("migrate", "--database", "sqlite:///new/jobs.db", folder=tmp_path)

    assert ended.returncode == 0
    assert ended.stderr == ""
    assert ended.stdout.splitlines()[0] == "applied 001 jobs"
    assert ended.stdout.splitlines()[-1] == "the database is up to date"
    assert (tmp_path / "new" / "jobs.db").exists()


def test_a_second_time_there_is_nothing_to_apply(tmp_path: Path) -> None:
    run_to_end("migrate", "--database", "sqlite:///jobs.db", folder=tmp_path)

    ended = run_to_end("migrate", "--database", "sqlite:///jobs.db", folder=tmp_path)

    assert ended.returncode == 0
    assert ended.stdout == "the database is up to date\n"


def test_the_database_may_come_from_the_environment_and_the_config_file(tmp_path: Path) -> None:
    (tmp_path / "coatcheck.toml").write_text('database = "sqlite:///from-file.db"\n')

    run_to_end("migrate", "--config", "coatcheck.toml", folder=tmp_path)
    run_to_end("migrate", folder=tmp_path, COATCHECK_DATABASE="sqlite:///from-environment.db")
    run_to_end("migrate", folder=tmp_path, JOB_DB_PATH="from-alias.db")

    made = {path.name for path in tmp_path.glob("*.db")}
    assert made == {"from-file.db", "from-environment.db", "from-alias.db"}


@pytest.mark.parametrize("size", [3, 5000])
def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path, size: int) -> None:
    garbage = (b"this is my diary, not a database. " * 200)[:size]
    (tmp_path / "diary").write_bytes(garbage)

    ended = run_to_end("migrate", "--database", "sqlite:///diary", folder=tmp_path)

    assert ended.returncode == 78
    assert ended.stdout == ""
    [line] = ended.stderr.splitlines()
    assert line.startswith("coatcheck: ")
    assert "diary is not a SQLite database" in line
    assert (tmp_path / "diary").read_bytes() == garbage


def test_a_database_of_a_newer_release_is_left_alone(tmp_path: Path) -> None:
    run_to_end("migrate", "--database", "sqlite:///jobs.db", folder=tmp_path)
    connection = apsw.Connection(str(tmp_path / "jobs.db"))
    connection.execute("PRAGMA user_version = 9999")
    connection.close()

    ended = run_to_end("migrate", "--database", "sqlite:///jobs.db", folder=tmp_path)

    assert ended.returncode == 78
    [line] = ended.stderr.splitlines()
    assert "a newer Coatcheck has migrated it" in line


def test_a_database_of_another_program_is_refused_in_one_line(tmp_path: Path) -> None:
    connection = apsw.Connection(str(tmp_path / "other.db"))
    connection.execute("CREATE TABLE jobs (title TEXT)")
    connection.close()

    ended = run_to_end("migrate", "--database", "sqlite:///other.db", folder=tmp_path)

    assert ended.returncode == 78
    [line] = ended.stderr.splitlines()
    assert line.startswith("coatcheck: ")


def test_a_folder_is_no_database(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()

    ended = run_to_end("migrate", "--database", "sqlite:///folder", folder=tmp_path)

    assert ended.returncode == 78
    [line] = ended.stderr.splitlines()
    assert line.startswith("coatcheck: ")
