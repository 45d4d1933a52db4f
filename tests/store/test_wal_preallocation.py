"""Room in the write-ahead log: made in time, by whoever writes, and of no meaning to anybody."""

import resource
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from coatcheck.store.sqlite.database.connection import connect
from coatcheck.store.sqlite.database.wal_preallocation import (
    FEW_PAGES,
    LEAST_PAGES,
    PAGE_BYTES,
    PIECE_PAGES,
    WalPreallocation,
)

MOST_PAGES = 1_000


class Log:
    """A database that is written to with room made in its log."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.wal = path.with_name(path.name + "-wal")
        self.room = WalPreallocation(path, MOST_PAGES)
        self.pages = 0
        self.connection = connect(path)
        self.connection.execute("CREATE TABLE notes (text TEXT)")
        self.connection.set_wal_hook(self._note)

    def _note(self, _connection: apsw.Connection, _name: str, pages: int) -> int:
        self.pages = pages
        self.room.record_size(pages)
        return apsw.SQLITE_OK

    def write(self, text: str = "note") -> None:
        """Commit one note."""
        self.connection.execute("BEGIN IMMEDIATE")
        self.connection.execute("INSERT INTO notes VALUES (?)", (text,))
        self.room.extend_if_low()
        self.connection.execute("COMMIT")

    def write_until(self, pages: int) -> None:
        """Commit until the log has so many pages."""
        while self.pages < pages:
            self.write()

    @property
    def size_in_pages(self) -> int:
        """How long the file is."""
        return self.wal.stat().st_size // PAGE_BYTES

    def notes(self) -> int:
        """How many are seen from outside."""
        with closing(apsw.Connection(str(self.path))) as outside:
            assert outside.execute("PRAGMA integrity_check").get == "ok"
            return int(outside.execute("SELECT count(*) FROM notes").get)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    log = Log(tmp_path / "jobs.db")
    yield log
    log.connection.close()


def test_a_log_of_a_few_pages_stays_as_it_is(log: Log) -> None:
    log.write_until(FEW_PAGES - 1)
    assert log.size_in_pages < FEW_PAGES + 2


def test_room_is_made_ahead_and_the_file_grows_in_pieces(log: Log) -> None:
    log.write_until(FEW_PAGES)
    sizes = set()
    while log.pages < 600:
        log.write()
        assert log.size_in_pages >= log.pages + LEAST_PAGES - 2
        sizes.add(log.size_in_pages)
    assert len(sizes) == 600 // PIECE_PAGES + 1


def test_the_file_does_not_grow_beyond_what_is_written_back(log: Log) -> None:
    log.write_until(MOST_PAGES + 50)
    assert log.size_in_pages <= MOST_PAGES + LEAST_PAGES + PIECE_PAGES


def test_what_was_written_is_all_there_after_a_crash(log: Log, tmp_path: Path) -> None:
    log.write_until(300)
    written = log.notes()
    crashed = tmp_path / "crashed.db"
    crashed.write_bytes(log.path.read_bytes())
    crashed.with_name("crashed.db-wal").write_bytes(log.wal.read_bytes())
    with closing(apsw.Connection(str(crashed))) as after:
        assert after.execute("SELECT count(*) FROM notes").get == written
        assert after.execute("PRAGMA integrity_check").get == "ok"


def test_a_log_that_begins_anew_uses_the_room_there_is(log: Log) -> None:
    log.write_until(300)
    size = log.size_in_pages
    log.connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_RESTART)
    log.write_until(size - LEAST_PAGES - 10)
    assert log.size_in_pages == size


def test_room_is_made_again_after_the_log_was_truncated(log: Log) -> None:
    log.write_until(300)
    with closing(connect(log.path)) as another:
        another.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    assert log.size_in_pages == 0
    log.write()
    log.write_until(FEW_PAGES + 5)
    assert log.size_in_pages >= PIECE_PAGES
    assert log.notes() == int(log.connection.execute("SELECT count(*) FROM notes").get)


def test_where_the_file_may_not_grow_it_is_left_as_it_was(log: Log) -> None:
    log.write_until(FEW_PAGES - 1)
    size = log.wal.stat().st_size
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 20 * PAGE_BYTES, before[1]))
    try:
        log.write_until(FEW_PAGES + 5)
        assert log.size_in_pages <= FEW_PAGES + 10
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    written = log.notes()
    log.write()  # nor is it tried again
    assert log.size_in_pages <= FEW_PAGES + 10
    assert log.notes() == written + 1
