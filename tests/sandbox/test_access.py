"""A program cannot access what it was not granted, with every backend."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from coatcheck.errors import ConfigurationError
from coatcheck.sandbox import SandboxAccess, SandboxBackend
from tests.sandbox.conftest import Attempt

# Prints the result of reading each path.
READ = """
import sys
for path in sys.stdin.read().split():
    try:
        with open(path, 'rb') as file:
            print('READ', path, len(file.read(100)))
    except OSError as error:
        print('no', path, error.errno)
"""


def test_files_outside_cannot_be_read(attempt: Attempt, wall: SandboxBackend, place: Path) -> None:
    canary = place / "canary.txt"
    canary.write_text("sings")
    (place / "own" / "link").symlink_to(canary)
    paths = [
        "/etc/shadow",
        "/etc/passwd",
        str(canary),
        str(place / "own" / ".." / "canary.txt"),
        str(place / "own" / "link"),
        f"/proc/self/root{canary}",
        f"/proc/{os.getpid()}/environ",
        f"/proc/{os.getppid()}/environ",
        "/proc/1/root/etc/shadow",
        "/proc/kcore",
        str(Path(__file__)),
    ]
    ended = attempt(READ, wall, stdin=" ".join(paths))
    assert ended.returncode == 0, ended.stderr
    assert "READ" not in ended.stdout
    assert ended.stdout.count("no ") == len(paths)


def test_kernel_settings_cannot_be_changed(attempt: Attempt, backend: SandboxBackend) -> None:
    # Only opened: if it were not denied, the machine would not be changed.
    source = """
import os
for path in ('/proc/sys/kernel/core_pattern', '/proc/sys/kernel/hostname', '/proc/sysrq-trigger'):
    try:
        os.close(os.open(path, os.O_WRONLY))
        print('OPEN', path)
    except OSError:
        print('no')
"""
    assert attempt(source, backend).stdout == "no\n" * 3


def test_granted_files_can_be_read(attempt: Attempt, backend: SandboxBackend, place: Path) -> None:
    given = place / "given.txt"
    given.write_text("12345")
    ended = attempt(READ, backend, read=(given,), stdin=f"{given} /dev/zero /proc/self/status")
    assert ended.stdout.split("\n")[0] == f"READ {given} 5"
    assert ended.stdout.count("READ") == 3


def test_only_the_own_folder_is_writable(
    attempt: Attempt, wall: SandboxBackend, place: Path
) -> None:
    given = place / "given.txt"
    given.write_text("as it was")
    places = [place / "new", given, Path("/usr/new"), Path("/new"), Path("/tmp/coatcheck-new")]
    source = """
import os, sys
for path in sys.stdin.read().split():
    for do in (lambda: open(path, 'w').write('x'), lambda: os.unlink(path), lambda: os.mkdir(path),
               lambda: os.rename('mine', path), lambda: os.link('mine', path)):
        open('mine', 'w').write('mine')
        try:
            do()
            print('DONE', path)
        except OSError as error:
            pass
print(os.getcwd(), os.environ['HOME'], open('mine').read())
"""
    ended = attempt(source, wall, read=(given,), stdin=" ".join(map(str, places)))
    own = place / "own"
    assert (ended.stdout, ended.stderr) == (f"{own} {own} mine\n", "")
    assert given.read_text() == "as it was"
    assert sorted(path.name for path in place.iterdir()) == ["given.txt", "own"]
    assert not any(place.exists() for place in places if place != given)
    assert (own / "mine").read_text() == "mine"


CALL = """
import socket, sys
tcp, udp, unix = sys.stdin.read().split()
for family, kind, address in (
    (socket.AF_INET, socket.SOCK_STREAM, ('127.0.0.1', int(tcp))),
    (socket.AF_INET, socket.SOCK_DGRAM, ('127.0.0.1', int(udp))),
    (socket.AF_UNIX, socket.SOCK_STREAM, unix),
    (socket.AF_UNIX, socket.SOCK_STREAM, '\\0' + unix),
):
    try:
        with socket.socket(family, kind) as made:
            made.connect(address)
            made.send(b'x')
            print('SENT', kind, address)
    except OSError as error:
        print('no')
"""


def test_the_network_is_denied(attempt: Attempt, wall: SandboxBackend, place: Path) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp,
        socket.socket(socket.AF_UNIX) as unix,
        socket.socket(socket.AF_UNIX) as abstract,
    ):
        udp.bind(("127.0.0.1", 0))
        name = f"/tmp/coatcheck-{os.getpid()}.sock"
        unix.bind(name)
        abstract.bind("\0" + name)
        try:
            for server in (tcp, unix, abstract):
                server.listen()
            for server in (tcp, udp, unix, abstract):
                server.setblocking(False)
            told = f"{tcp.getsockname()[1]} {udp.getsockname()[1]} {name}"
            ended = attempt(CALL, wall, stdin=told)
            # In its own network namespace it may send a datagram, which reaches nobody.
            assert "SENT 1" not in ended.stdout
            assert ended.stdout.count("no\n") >= 3
            for server in (tcp, unix, abstract):
                with pytest.raises(BlockingIOError):
                    server.accept()
            with pytest.raises(BlockingIOError):
                udp.recv(1)
            allowed = attempt(CALL, wall, stdin=told, network=True)
            assert "SENT 1 ('127.0.0.1'" in allowed.stdout
        finally:
            Path(name).unlink()


def test_the_environment_is_clean(
    attempt: Attempt, backend: SandboxBackend, monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    monkeypatch.setenv("COATCHECK_SECRET", "sesame")
    source = "import os, json; print(sorted(os.environ.items()), os.listdir('/proc/self/fd'))"
    ended = attempt(source, backend)
    assert "sesame" not in ended.stdout
    for name in ("PATH", "LANG", "HOME", "TMPDIR"):
        assert f"('{name}'" in ended.stdout
    assert str(Path.home()) not in ended.stdout.replace(str(folder), "")


def test_other_processes_cannot_be_signalled(attempt: Attempt, wall: SandboxBackend) -> None:
    source = f"""
import os
try:
    os.kill({os.getpid()}, 0)
    print('SEEN')
except OSError:
    print('no')
"""
    assert attempt(source, wall).stdout == "no\n"


def test_there_are_no_capabilities(attempt: Attempt, backend: SandboxBackend) -> None:
    source = "print([line for line in open('/proc/self/status') if line.startswith('CapEff')])"
    assert "0000000000000000" in attempt(source, backend).stdout


@pytest.mark.parametrize("path", [Path("relative"), Path("/nowhere/at/all")])
def test_invalid_access_is_rejected(path: Path) -> None:
    with pytest.raises(ConfigurationError, match="sandbox access"):
        SandboxAccess(read=(path,))
