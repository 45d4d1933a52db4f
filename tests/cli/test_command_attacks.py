"""Commands over HTTP, with a tenant's key, that attack the server they run on."""

from __future__ import annotations

import json
import os
import resource
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import httpx2
import pytest

from coatcheck.sandbox import SandboxBackend, detect_sandbox
from tests.cli.proc_files import children_of
from tests.cli.processes import PATIENCE_S, run_to_end, running

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="looks at processes in /proc"),
    pytest.mark.skipif(
        detect_sandbox().backend is SandboxBackend.RLIMITS, reason="commands need a sandbox"
    ),
]
PYTHON = "/usr/bin/python3"


class Target(NamedTuple):
    """A server to attack, with a tenant's key."""

    folder: Path
    api: int
    http: httpx2.Client

    def run(self, *argv: str) -> Any:
        """Run a command as the tenant; return how it went."""
        task = {"id": "attack", "name": "attack", "command": list(argv)}
        self.http.put("/api/tasks", json=task).raise_for_status()
        return self.http.put("/api/tasks/attack/executions").raise_for_status().json()

    def run_python(self, source: str, *arguments: str) -> Any:
        return self.run(PYTHON, "-I", "-S", "-c", source, *arguments)


@pytest.fixture(scope="module")
def target() -> Iterator[Target]:
    if not Path(PYTHON).exists():
        pytest.skip(f"there is no {PYTHON}")
    # Unlike pytest's folders, one that every user may enter.
    with TemporaryDirectory(prefix="coatcheck-attacked-") as name:
        folder = Path(name).resolve()
        folder.chmod(0o755)
        made = run_to_end("keys", "create", "--tenant", "attacker", "--json", folder=folder)
        assert made.returncode == 0, made.stderr
        key = json.loads(made.stdout)["key"]
        with running("serve", "--port", "0", folder=folder) as server:
            url = server.url()
            children = children_of(server.pid)
            headers = {"Authorization": f"Bearer {key}"}
            with httpx2.Client(base_url=url, headers=headers, timeout=PATIENCE_S) as http:
                api = next(pid for pid, argv in children.items() if "--no-worker" in argv)
                yield Target(folder, api, http)


def test_command_cannot_read_or_change_server_files(target: Target) -> None:
    files = [target.folder, *(target.folder / "data").rglob("*"), target.folder / "data"]
    assert any(path.name.endswith(".pepper") for path in files)
    before = {path: path.stat().st_mode for path in files}
    source = """
import os, sys
for path in sys.argv[1:]:
    for change in (lambda: os.chmod(path, 0o777), lambda: os.chown(path, 65534, 65534),
                   lambda: os.utime(path, (1, 1)), lambda: os.setxattr(path, 'user.x', b'x'),
                   lambda: print('READ', open(path, 'rb').read(1))):
        try:
            change()
        except OSError:
            pass
"""
    ran = target.run_python(source, *map(str, files))
    assert (ran["exitCode"], ran["stdout"]) == (0, "")
    for path, mode in before.items():
        after = path.stat()
        assert stat.filemode(after.st_mode) == stat.filemode(mode)
        assert (after.st_uid, after.st_mtime != 1) == (os.geteuid(), True)
        assert os.listxattr(path) == []


def test_command_cannot_exhaust_the_api_file_descriptors(target: Target) -> None:
    limits = resource.prlimit(target.api, resource.RLIMIT_NOFILE)
    ran = target.run("prlimit", f"--pid={target.api}", "--nofile=3:3")
    assert ran["exitCode"] != 0
    assert resource.prlimit(target.api, resource.RLIMIT_NOFILE) == limits
    assert target.http.get("/healthz").status_code == 200


def test_command_cannot_slow_down_or_kill_the_api(target: Target) -> None:
    source = """
import os, signal, sys
pid = int(sys.argv[1])
for harm in (lambda: os.kill(pid, signal.SIGSTOP), lambda: os.kill(pid, signal.SIGKILL),
             lambda: os.setpriority(os.PRIO_PROCESS, pid, 19),
             lambda: os.sched_setaffinity(pid, {0})):
    try:
        harm()
        print('DONE')
    except OSError:
        pass
"""
    affinity = os.sched_getaffinity(target.api)
    assert target.run_python(source, str(target.api))["stdout"] == ""
    assert os.sched_getaffinity(target.api) == affinity
    assert target.http.get("/healthz").status_code == 200


def test_command_that_fills_the_disk_is_killed(target: Target) -> None:
    # At most 512 MiB, should the limit not hold.
    source = """
import os, time
for number in range(16):
    with open(str(number), 'wb') as file:
        os.posix_fallocate(file.fileno(), 0, 32 * 1024 * 1024)
time.sleep(60)
"""
    ran = target.run_python(source)
    assert ran["exitCode"] == 137
    assert ran["stderr"] == "sandbox: killed: more than 268435456 bytes of disk\n"


def test_server_with_files_readable_by_commands_does_not_start(tmp_path: Path) -> None:
    database = "sqlite:////usr/local/share/coatcheck-test/jobs.db"
    ended = run_to_end("serve", "--port", "0", folder=tmp_path, COATCHECK_DATABASE=database)
    assert ended.returncode == 78
    assert "the database is in /usr/local/share/coatcheck-test" in ended.stderr
    assert not Path("/usr/local/share/coatcheck-test").exists()
