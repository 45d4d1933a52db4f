"""Wake-ups between the processes on one file.

Each process that waits for a topic binds a datagram socket named `<topic>.<token>` in a folder
beside the database (or in a private one under the temporary folder, if that path is too long for a
socket). After a commit the writer sends an empty datagram to every socket of the changed topics. A
datagram that does not fit into the receiver's buffer is no loss: that receiver has wake-ups
pending. A socket without a listener was left by a dead process and is removed.

The safety net: the listening thread reads `PRAGMA data_version` every `poll_s`, which changes when
another connection has committed, and then wakes every topic. So a lost datagram costs at most one
poll, and an idle system costs one pragma a poll.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import select
import socket
import tempfile
import threading
import time
from pathlib import Path

import apsw

from coatcheck.store.base import Topic
from coatcheck.store.shared.signals import LoopSignal, SignalHub
from coatcheck.store.sqlite.database.connection import connect

# The kernel's limit for a socket's path is 108 bytes on Linux and 104 elsewhere, with the NUL.
_LONGEST_PATH = 100
_COARSE_NS = 50_000_000
_WHOLE_SECONDS_NS = 2_000_000_000
_NOT_LOOKED = -2  # not a valid version
WAKE_FOLDER = "wake"
_NAME_LENGTH = max(len(f"/{topic}.") for topic in Topic) + 26


class Wakeups:
    """Sends wake-ups to other processes and sets this process's signals when one arrives."""

    def __init__(self, database: Path, run_folder: Path, token: str, poll_s: float) -> None:
        self._database = database
        self._token = token
        self._poll_s = poll_s
        self._folder = _socket_folder(run_folder)
        self._folder_name = str(self._folder)
        self._hub = SignalHub()
        self._sockets: dict[socket.socket, Topic] = {}
        self._sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._sender.setblocking(False)
        self._peers: list[tuple[str, str]] = []
        self._peers_seen = -1
        self._poke_reading, self._poke_writing = os.pipe()
        self._poke_lock = threading.Lock()
        self._closed = False
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def subscribe(self, topic: Topic) -> LoopSignal:
        """Create a signal that commits of this process and of others set."""
        signal = self._hub.subscribe(topic, self._poke)
        with self._lock:
            if topic not in self._sockets.values():
                self._listen(topic)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="coatcheck-wake", daemon=True
                )
                self._thread.start()
            else:
                self._poke()
        return signal

    def publish(self, topics: set[Topic]) -> None:
        """Wake all waiters for these topics, in this process and in others."""
        self._hub.wake(topics)
        for topic, path in self._other_sockets():
            if topic in topics:
                try:
                    self._sender.sendto(b"", path)
                except (ConnectionRefusedError, FileNotFoundError):
                    Path(path).unlink(missing_ok=True)
                except OSError:
                    continue  # buffer full: the receiver has a wake-up pending

    def close(self) -> None:
        """Stop listening."""
        if self._thread is not None:
            os.write(self._poke_writing, b"x")
            self._thread.join()
        for listening in self._sockets:
            _close(listening)
        self._sender.close()
        if self._folder is not None and self._folder.name != WAKE_FOLDER:
            with contextlib.suppress(OSError):  # other processes still have sockets there
                self._folder.rmdir()
        with self._poke_lock:
            # From here on, these descriptor numbers may be reused for other files.
            self._closed = True
            os.close(self._poke_reading)
            os.close(self._poke_writing)

    def _listen(self, topic: Topic) -> None:
        if self._folder is None:
            return
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        listening.setblocking(False)
        while True:
            try:
                listening.bind(str(self._folder / f"{topic}.{self._token}"))
                break
            except FileNotFoundError:
                # The last process that listened has closed and removed the folder.
                self._folder.mkdir(mode=0o700, exist_ok=True)
        self._sockets[listening] = topic

    def _other_sockets(self) -> list[tuple[str, str]]:
        if self._folder is None:
            return []
        try:
            changed = os.stat(self._folder_name).st_mtime_ns  # noqa: PTH116 - runs at every commit
            # File system clocks are coarse, and some count whole seconds. A folder that has just
            # changed may change again with the same mtime.
            coarse = _COARSE_NS if changed % 1_000_000_000 else _WHOLE_SECONDS_NS
            if changed != self._peers_seen or time.time_ns() - changed < coarse:
                self._peers = [
                    (name.partition(".")[0], str(self._folder / name))
                    for name in os.listdir(self._folder_name)  # noqa: PTH208 - only names; faster
                    if not name.endswith(self._token)
                ]
                self._peers_seen = changed
        except OSError:
            return []  # the folder is gone: other processes find the work by polling
        return self._peers

    def _run(self) -> None:
        connection = connect(self._database, read_only=True)
        # A subscriber may have missed commits made while this thread was starting.
        version, looked = _NOT_LOOKED, time.monotonic()
        while True:
            wanted = {listening.fileno(): listening for listening in self._wanted_sockets()}
            readable = _readable([*wanted, self._poke_reading], self._poll_s)
            if self._poke_reading in readable and b"x" in os.read(self._poke_reading, 64):
                break
            topics = set()
            for descriptor in wanted.keys() & readable:
                topics.add(self._sockets[wanted[descriptor]])
                _drain(wanted[descriptor])
            if time.monotonic() - looked >= self._poll_s:
                seen, looked = _data_version(connection), time.monotonic()
                if seen != version:
                    version, topics = seen, set(Topic)
            self._hub.wake(topics)
        connection.close(True)

    def _wanted_sockets(self) -> list[socket.socket]:
        # Close sockets without waiters, so that other processes stop sending to them.
        with self._lock:
            for listening, topic in list(self._sockets.items()):
                if not self._hub.is_wanted(topic):
                    del self._sockets[listening]
                    _close(listening)
            return list(self._sockets)

    def _poke(self) -> None:
        """Make the thread reread which sockets are needed."""
        with self._poke_lock:
            if not self._closed:
                os.write(self._poke_writing, b".")


def _readable(descriptors: list[int], timeout_s: float) -> set[int]:
    # Not select.select: it rejects descriptors over 1023, which a busy server has.
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return {descriptor for descriptor, _ in poll.poll(timeout_s * 1000)}


def _data_version(connection: apsw.Connection) -> int:
    try:
        return int(connection.execute("PRAGMA data_version").get)
    except apsw.Error:
        return -1  # unreadable: treated as a change; the woken waiters see the error


def _close(listening: socket.socket) -> None:
    Path(listening.getsockname()).unlink(missing_ok=True)
    listening.close()


def _drain(listening: socket.socket) -> None:
    with contextlib.suppress(BlockingIOError):
        while True:
            listening.recv(1)


def _socket_folder(run_folder: Path) -> Path | None:
    """Return the folder for sockets; None (poll only) if no path is short enough."""
    digest = hashlib.sha256(os.fsencode(run_folder)).hexdigest()[:16]
    elsewhere = Path(tempfile.gettempdir()) / f"coatcheck-{os.getuid()}-{digest}"
    for folder in (run_folder / WAKE_FOLDER, elsewhere):
        if len(os.fsencode(folder)) + _NAME_LENGTH <= _LONGEST_PATH:
            folder.mkdir(mode=0o700, exist_ok=True)
            # Another user's folder of that name cannot be trusted with wake-ups.
            return folder if folder.stat().st_uid == os.getuid() else None
    return None
