"""If the server runs as root, each program has its own uid."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from coatcheck.errors import ConfigurationError
from coatcheck.sandbox import SandboxAccess, SandboxBackend, SandboxLimits, confine
from coatcheck.sandbox import detect as looking
from coatcheck.sandbox.identity import SETTING, UidRange, is_open_to_all, uid_range
from coatcheck.settings import Settings
from tests.sandbox.conftest import Attempt


@pytest.fixture
def own_users(backend: SandboxBackend) -> SandboxBackend:
    users = looking.detect_users(backend)
    if users.uids is None:
        pytest.skip(users.why)
    return backend


def test_the_range_can_be_set() -> None:
    assert uid_range({SETTING: "70000-70009"}) == UidRange(70_000, 70_009)
    assert uid_range({SETTING: ""}) == uid_range({})


@pytest.mark.parametrize("text", ["5", "0-9", "9-5", "1-4294967295", "a-b", "-5-9", "1-2-3"])
def test_an_invalid_uid_range_is_rejected(text: str) -> None:
    with pytest.raises(ConfigurationError, match="sandbox_uids"):
        uid_range({SETTING: text})
    with pytest.raises(ConfigurationError, match="sandbox_uids"):
        Settings(sandbox_uids=text)


def test_uids_in_use_are_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setenv(SETTING, "1-70000")
    users = looking.detect_users.__wrapped__(SandboxBackend.RLIMITS)
    assert users.uids is None
    assert "not free" in users.why
    assert SETTING in users.advice


def test_only_root_can_use_other_uids(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    users = looking.detect_users.__wrapped__(SandboxBackend.RLIMITS)
    assert (users.uids, users.advice) == (None, "")


def test_access_to_private_files_keeps_the_servers_uid(place: Path) -> None:
    (place / "open").mkdir(mode=0o755)
    (place / "shut").mkdir(mode=0o700)
    (place / "shut" / "in").mkdir(mode=0o755)
    (place / "file").touch(mode=0o640)
    assert is_open_to_all([place / "open", Path("/usr/bin")])
    for closed in (place / "shut", place / "shut" / "in", place / "file", place / "missing"):
        assert not is_open_to_all([closed])


def test_programs_that_run_at_the_same_time_have_different_users(
    own_users: SandboxBackend, place: Path
) -> None:
    uids = []
    running = []
    for number in range(2):
        folder = place / str(number)
        folder.mkdir()
        confined = confine(
            ["sh", "-c", "stat -c %u . && read -r line"],
            access=SandboxAccess(write=(folder,)),
            limits=SandboxLimits(seconds=60),
            backend=own_users,
        )
        process = subprocess.Popen(
            confined.argv, **confined.options, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        running.append(process)
        assert process.stdout is not None
        process.stdout.readline()
        uids.append(folder.stat().st_uid)
    for process in running:
        process.communicate(b"\n")
    assert len(set(uids)) == 2
    assert 0 not in uids


def test_no_ipc_objects_of_a_user_are_left(
    attempt: Attempt, own_users: SandboxBackend, folder: Path
) -> None:
    assert attempt("print()", own_users).returncode == 0
    uid = folder.stat().st_uid
    assert uid != 0
    for kind in ("sem", "shm", "msg"):
        header, *lines = Path(f"/proc/sysvipc/{kind}").read_text().splitlines()
        column = header.split().index("uid")
        assert str(uid) not in [line.split()[column] for line in lines]


def test_a_folder_that_others_cannot_enter_is_used_under_the_servers_uid(
    own_users: SandboxBackend, place: Path
) -> None:
    if own_users is SandboxBackend.RLIMITS:
        pytest.skip("limits alone are never for root")
    shut = place / "shut"
    (shut / "own").mkdir(parents=True)
    shut.chmod(0o700)
    confined = confine(
        ["touch", "made"],
        access=SandboxAccess(write=(shut / "own",)),
        limits=SandboxLimits(seconds=30),
        backend=own_users,
    )
    assert subprocess.run(confined.argv, **confined.options, check=False).returncode == 0
    assert (shut / "own" / "made").stat().st_uid == shut.stat().st_uid
