import fcntl
from pathlib import Path

import pytest

from coatcheck.errors import ConfigurationError, StoreUnavailable
from coatcheck.model.worker import WorkerInfo
from coatcheck.store.sqlite.database.locks import FileLock, LivenessLocks, refuse_network_filesystem
from coatcheck.store.sqlite.store import SQLiteStore
from tests.store.another_process import NOW, AnotherProcess


def test_a_worker_shows_that_it_is_alive(tmp_path: Path) -> None:
    mine, looking = LivenessLocks(tmp_path / "workers"), LivenessLocks(tmp_path / "workers")
    mine.hold("worker-1")
    assert not looking.is_dead("worker-1")
    assert not mine.is_dead("worker-1")
    mine.drop("worker-1")
    assert looking.is_dead("worker-1")
    assert names_in(tmp_path / "workers") == []


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def test_a_killed_process_is_seen_dead_at_once(tmp_path: Path) -> None:
    looking = LivenessLocks(tmp_path)
    with AnotherProcess("live", tmp_path, "worker-1") as other:
        assert other.says() == "alive"
        assert not looking.is_dead("worker-1")
        other.kill()
        assert looking.is_dead("worker-1")
        assert looking.is_dead("worker-1"), "looking does not bring it back to life"


def test_a_stopped_process_is_not_dead(tmp_path: Path) -> None:
    looking = LivenessLocks(tmp_path)
    with AnotherProcess("live", tmp_path, "worker-1") as other:
        assert other.says() == "alive"
        other.stop()
        assert not looking.is_dead("worker-1")
        other.resume()
        assert not looking.is_dead("worker-1")


@pytest.mark.anyio
async def test_the_store_tells_which_workers_are_known_to_be_dead(
    store: SQLiteStore, database: Path
) -> None:
    with (
        AnotherProcess("work", database, "worker-1") as one,
        AnotherProcess("work", database, "worker-2") as two,
    ):
        assert (one.says(), two.says()) == ("registered", "registered")
        two.kill()
        seen = {seen.info.id: seen.known_dead for seen in await store.workers.list_workers()}
        assert seen == {"worker-1": False, "worker-2": True}
        assert await store.workers.remove_worker("worker-2", 0, 1) == 0
        assert [seen.info.id for seen in await store.workers.list_workers()] == ["worker-1"]
        assert names_in(database.with_name("jobs.db.run") / "workers") == ["worker-1"]


@pytest.mark.anyio
async def test_a_registration_that_failed_leaves_no_life_sign(database: Path) -> None:
    store = SQLiteStore(database)
    await store.open()
    await store.close()
    with pytest.raises(StoreUnavailable):
        await store.workers.register_worker(WorkerInfo("worker-1", "here", 1, ("mail",), 1, NOW))
    assert names_in(database.with_name("jobs.db.run") / "workers") == []


def test_closing_drops_every_worker_of_the_process(tmp_path: Path) -> None:
    mine, looking = LivenessLocks(tmp_path), LivenessLocks(tmp_path)
    mine.hold("worker-1")
    mine.hold("worker-2")
    mine.close()
    assert looking.is_dead("worker-1")
    assert looking.is_dead("worker-2")


def test_a_lock_excludes_other_processes(tmp_path: Path) -> None:
    path = tmp_path / "write.lock"
    lock = FileLock(path)
    with AnotherProcess("lock", path) as other:
        assert other.says() == "locked"
        assert is_locked(path)
        other.tell()
        assert other.says() == "unlocked"
        with lock:
            assert is_locked(path)
    assert not is_locked(path)
    lock.close()


def test_a_lock_ends_with_the_process_that_holds_it(tmp_path: Path) -> None:
    lock = FileLock(tmp_path / "write.lock")
    with AnotherProcess("lock", tmp_path / "write.lock") as other:
        assert other.says() == "locked"
        other.kill()
        with lock:
            assert is_locked(tmp_path / "write.lock")
    lock.close()


def is_locked(path: Path) -> bool:
    with path.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False


MOUNTS = """\
/dev/sda1 / ext4 rw,relatime 0 0
proc /proc proc rw 0 0
server:/export /mnt/share nfs4 rw,vers=4.2 0 0
/dev/sdb1 /mnt/share/local xfs rw 0 0
me@host:/ /home/me/with\\040space fuse.sshfs rw 0 0
"""


@pytest.fixture
def mounts(tmp_path: Path) -> Path:
    path = tmp_path / "mounts"
    path.write_text(MOUNTS, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("path", "filesystem"),
    [
        ("/mnt/share/jobs.db", "nfs4"),
        ("/mnt/share/deep/down/jobs.db", "nfs4"),
        ("/home/me/with space/jobs.db", "fuse.sshfs"),
    ],
)
def test_a_network_file_system_is_refused(mounts: Path, path: str, filesystem: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"\({filesystem} at "):
        refuse_network_filesystem(Path(path), mounts)


@pytest.mark.parametrize(
    "path", ["/var/jobs.db", "/mnt/share/local/jobs.db", "/mnt/shared/jobs.db", "/mnt/jobs.db"]
)
def test_a_local_disk_is_fine(mounts: Path, path: str) -> None:
    refuse_network_filesystem(Path(path), mounts)


def test_the_last_mount_on_a_place_counts(mounts: Path) -> None:
    mounts.write_text(MOUNTS + "server:/x /mnt/share/local nfs rw 0 0\n", encoding="utf-8")
    with pytest.raises(ConfigurationError, match="nfs at"):
        refuse_network_filesystem(Path("/mnt/share/local/jobs.db"), mounts)


def test_a_relative_path_is_judged_by_where_it_leads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "far")
    mounts = tmp_path / "mounts"
    mounts.write_text(f"/dev/sda1 / ext4 rw 0 0\ns:/x {tmp_path / 'far'} nfs rw 0 0\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigurationError, match="nfs"):
        refuse_network_filesystem(Path("link/jobs.db"), mounts)


def test_a_mount_point_with_other_letters_is_recognised(mounts: Path) -> None:
    mounts.write_text(MOUNTS + "//nas/x /mnt/größe cifs rw 0 0\n", encoding="utf-8")
    with pytest.raises(ConfigurationError, match="cifs"):
        refuse_network_filesystem(Path("/mnt/größe/jobs.db"), mounts)


def test_without_a_list_of_mounts_nothing_is_refused(tmp_path: Path) -> None:
    refuse_network_filesystem(Path("/mnt/share/jobs.db"), tmp_path / "nothing")
