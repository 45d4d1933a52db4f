"""Group commit, with the writer alone: operations on a table of notes, and a look from outside."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path

import apsw
import pytest

from coatcheck.errors import Conflict, StoreError, StoreUnavailable
from coatcheck.store.base import Topic
from coatcheck.store.sqlite.database import inline_commit
from coatcheck.store.sqlite.database import writer as writer_module
from coatcheck.store.sqlite.database.locks import FileLock
from coatcheck.store.sqlite.database.transaction import Operation, Transaction, Urgency
from coatcheck.store.sqlite.database.writer import Writer
from tests.store.another_process import AnotherProcess

pytestmark = pytest.mark.anyio

Published = list[tuple[set[Topic], list[str]]]


def note(text: str) -> Operation[str]:
    """An operation that writes a note and wakes whoever waits for work."""

    def operation(tx: Transaction) -> str:
        tx.execute("INSERT INTO notes VALUES (?)", (text,))
        tx.topics.add(Topic.WORK)
        return text

    return operation


class Gate:
    """An operation that keeps the writer busy until it is opened, so that others must queue."""

    def __init__(self) -> None:
        self._entered = threading.Event()
        self._opened = threading.Event()

    def __call__(self, _tx: Transaction) -> None:
        self._entered.set()
        self._opened.wait()

    async def entered(self) -> None:
        await asyncio.to_thread(self._entered.wait)

    def open(self) -> None:
        self._opened.set()


@pytest.fixture
def notes(database: Path) -> Iterator[Callable[[], list[str]]]:
    """What somebody else reads from the file."""
    connection = apsw.Connection(str(database))
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("CREATE TABLE notes (text TEXT UNIQUE)")
    yield lambda: [row[0] for row in connection.execute("SELECT text FROM notes ORDER BY rowid")]
    connection.close()


@pytest.fixture
def published(notes: Callable[[], list[str]]) -> Published:
    """For each commit that woke somebody: the topics, and what was visible by then."""
    return []


@pytest.fixture
async def writer(
    database: Path,
    notes: Callable[[], list[str]],
    published: Published,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[Writer]:
    # However slow the machine is, what is queued together is one batch.
    monkeypatch.setattr(writer_module, "LOOP_SECONDS", 3_600.0)
    monkeypatch.setattr(writer_module, "BULK_SECONDS", 3_600.0)
    lock = FileLock(database.with_suffix(".lock"))

    def on_commit(topics: set[Topic]) -> None:
        with apsw.Connection(str(database)) as outside:
            visible = [row[0] for row in outside.execute("SELECT text FROM notes ORDER BY rowid")]
        outside.close()
        published.append((set(topics), visible))

    writer = Writer(database)
    writer.open(lock, on_commit)
    # The thread commits, one turn after the other, unless a test says otherwise.
    writer._inline_policy._again_at = float("inf")
    yield writer
    await writer.close()
    lock.close()


async def held(writer: Writer) -> Gate:
    """Keep the writer busy: what is queued from now on is one batch when the gate opens."""
    gate = Gate()
    writer.write(gate, Urgency.BULK)
    await gate.entered()
    return gate


async def test_what_was_answered_is_committed(
    writer: Writer, notes: Callable[[], list[str]]
) -> None:
    assert await writer.write(note("first"), Urgency.SUBMIT) == "first"
    assert notes() == ["first"]


async def test_nobody_is_answered_before_the_commit(
    writer: Writer, notes: Callable[[], list[str]]
) -> None:
    gate, last = await held(writer), Gate()
    early = [writer.write(note(str(n)), Urgency.SUBMIT) for n in range(5)]
    end = writer.write(last, Urgency.BULK)
    gate.open()
    await last.entered()  # the five have run, and their transaction is still open
    assert not any(future.done() for future in early)
    assert notes() == []

    last.open()
    await end
    assert await asyncio.gather(*early) == notes() == ["0", "1", "2", "3", "4"]


async def test_waiters_are_woken_once_a_batch_and_after_its_commit(
    writer: Writer, published: Published
) -> None:
    gate = await held(writer)
    queued = [writer.write(note(str(n)), Urgency.SUBMIT) for n in range(3)]
    gate.open()
    await asyncio.gather(*queued)
    await writer.write(lambda tx: tx.one("SELECT 1"), Urgency.SUBMIT)  # by now it has published
    assert published == [({Topic.WORK}, ["0", "1", "2"])]


async def test_a_batch_is_bounded_in_time(
    writer: Writer, published: Published, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "LOOP_SECONDS", 0.0)
    gate = await held(writer)
    queued = [writer.write(note(str(n)), Urgency.SUBMIT) for n in range(3)]
    gate.open()
    await asyncio.gather(*queued)
    await writer.write(lambda tx: tx.one("SELECT 1"), Urgency.SUBMIT)  # by now it has published
    assert [visible for _, visible in published] == [["0"], ["0", "1"], ["0", "1", "2"]]


async def test_one_that_refuses_fails_alone(
    writer: Writer, notes: Callable[[], list[str]], published: Published
) -> None:
    def refuse(tx: Transaction) -> None:
        tx.one("SELECT 1")
        raise Conflict("taken")

    gate = await held(writer)
    queued: list[asyncio.Future[object]] = [
        writer.write(note("before"), Urgency.SUBMIT),
        writer.write(refuse, Urgency.SUBMIT),
        writer.write(note("after"), Urgency.SUBMIT),
    ]
    gate.open()
    answers = await asyncio.gather(*queued, return_exceptions=True)
    assert isinstance(answers[1], Conflict)
    assert [answers[0], answers[2]] == notes() == ["before", "after"]
    await writer.write(lambda tx: tx.one("SELECT 1"), Urgency.SUBMIT)
    assert len(published) == 1, "the others were still one commit"


def _break_a_rule(tx: Transaction) -> None:
    tx.execute("INSERT INTO notes VALUES ('before')")


def _ask_nonsense(tx: Transaction) -> None:
    tx.execute("SELECT nonsense FROM nowhere")


def _stumble(_tx: Transaction) -> None:
    raise ZeroDivisionError


def _write_then_refuse(tx: Transaction) -> None:
    tx.execute("INSERT INTO notes VALUES ('unwanted')")
    raise Conflict("on second thoughts")


def _write_then_stumble(tx: Transaction) -> None:
    tx.execute("INSERT INTO notes VALUES ('unwanted')")
    raise ZeroDivisionError


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        (_break_a_rule, StoreError),
        (_ask_nonsense, StoreError),
        (_stumble, ZeroDivisionError),
        (_write_then_refuse, Conflict),
        (_write_then_stumble, ZeroDivisionError),
    ],
)
async def test_one_that_breaks_the_batch_fails_alone_and_leaves_nothing(
    writer: Writer,
    notes: Callable[[], list[str]],
    bad: Operation[None],
    error: type[Exception],
) -> None:
    gate = await held(writer)
    queued: list[asyncio.Future[object]] = [
        writer.write(note("before"), Urgency.SUBMIT),
        writer.write(bad, Urgency.SUBMIT),
        writer.write(note("after"), Urgency.SUBMIT),
    ]
    gate.open()
    answers = await asyncio.gather(*queued, return_exceptions=True)
    assert isinstance(answers[1], error)
    assert [answers[0], answers[2]] == notes() == ["before", "after"]


async def test_who_has_gone_away_before_its_turn_is_dropped(
    writer: Writer, notes: Callable[[], list[str]]
) -> None:
    gate = await held(writer)
    kept = writer.write(note("kept"), Urgency.SUBMIT)
    dropped = writer.write(note("dropped"), Urgency.SUBMIT)
    dropped.cancel()
    gate.open()
    await kept
    assert notes() == ["kept"]


async def test_who_goes_away_during_its_turn_disturbs_nobody(
    writer: Writer, notes: Callable[[], list[str]]
) -> None:
    gate, during = await held(writer), Gate()
    going = writer.write(during, Urgency.BULK)
    staying = writer.write(note("staying"), Urgency.SUBMIT)
    gate.open()
    await during.entered()
    going.cancel()
    during.open()
    assert await staying == "staying"
    assert notes() == ["staying"]


async def test_a_loop_that_has_ended_disturbs_nobody(
    writer: Writer, notes: Callable[[], list[str]]
) -> None:
    gate = await held(writer)

    async def write_and_leave() -> None:
        writer.write(note("left behind"), Urgency.SUBMIT)

    await asyncio.to_thread(asyncio.run, write_and_leave())
    staying = writer.write(note("staying"), Urgency.SUBMIT)
    gate.open()
    assert await staying == "staying"
    assert notes() == ["left behind", "staying"]


async def test_the_urgent_are_taken_first(writer: Writer, notes: Callable[[], list[str]]) -> None:
    gate = await held(writer)
    queued = [
        writer.write(note(f"{urgency.name} {n}"), urgency)
        for n in range(2)
        for urgency in (Urgency.BULK, Urgency.WORKER, Urgency.SUBMIT)
    ]
    gate.open()
    await asyncio.gather(*queued)
    assert notes() == ["WORKER 0", "WORKER 1", "SUBMIT 0", "SUBMIT 1", "BULK 0", "BULK 1"]


async def test_what_comes_in_urgently_does_not_wait_for_a_long_tail(
    writer: Writer, notes: Callable[[], list[str]]
) -> None:
    gate, first = await held(writer), Gate()
    writer.write(first, Urgency.BULK)
    bulk = [writer.write(note(f"bulk {n}"), Urgency.BULK) for n in range(3)]
    gate.open()
    await first.entered()
    urgent = writer.write(note("urgent"), Urgency.WORKER)
    first.open()
    await asyncio.gather(urgent, *bulk)
    assert notes()[0] == "urgent"


async def test_a_full_disk_is_said_to_be_full_and_changes_nothing(
    writer: Writer, notes: Callable[[], list[str]]
) -> None:
    await writer.write(note("before"), Urgency.SUBMIT)
    # From here on the file must not grow: one page is less than it has.
    await writer.write(lambda tx: tx.one("PRAGMA max_page_count = 1"), Urgency.SUBMIT)
    gate = await held(writer)
    queued: list[asyncio.Future[str]] = [
        writer.write(note("small"), Urgency.SUBMIT),
        writer.write(note("large" * 100_000), Urgency.SUBMIT),
        writer.write(note("small too"), Urgency.SUBMIT),
    ]
    gate.open()
    answers = await asyncio.gather(*queued, return_exceptions=True)
    assert isinstance(answers[1], StoreUnavailable)
    assert "full" in str(answers[1])
    assert notes() == ["before", "small", "small too"] == ["before", answers[0], answers[2]]

    await writer.write(lambda tx: tx.one("PRAGMA max_page_count = 1000000"), Urgency.SUBMIT)
    await writer.write(note("large" * 100_000), Urgency.SUBMIT)
    assert len(notes()) == 4


async def test_a_store_on_a_full_disk_answers_truly_and_recovers(database: Path) -> None:
    with AnotherProcess("fill_disk", database) as other:
        said = await asyncio.to_thread(other.finish)
    accepted, refused = (int(part.split()[0]) for part in said.split(","))
    assert accepted > 0
    assert refused > 0


async def test_a_ping_notices_a_full_disk(database: Path) -> None:
    with AnotherProcess("ping_on_a_full_disk", database) as other:
        said = await asyncio.to_thread(other.finish)
    assert said.splitlines() == ["a submit is refused", "a ping is refused"]


async def test_a_database_out_of_reach_is_unavailable_until_it_is_back(tmp_path: Path) -> None:
    lock = FileLock(tmp_path / "write.lock")
    writer = Writer(tmp_path / "missing" / "jobs.db")
    writer.open(lock, lambda _topics: None)
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            await writer.write(lambda tx: tx.one("SELECT 1"), Urgency.SUBMIT)
    await asyncio.to_thread((tmp_path / "missing").mkdir)
    assert await writer.write(lambda tx: tx.one("SELECT 1"), Urgency.SUBMIT) == (1,)
    await writer.close()
    lock.close()


async def test_closing_finishes_what_is_queued_and_takes_no_more(
    database: Path, notes: Callable[[], list[str]]
) -> None:
    lock = FileLock(database.with_suffix(".lock"))
    writer = Writer(database)
    writer.open(lock, lambda _topics: None)
    gate = await held(writer)
    queued = [writer.write(note(str(n)), Urgency.BULK) for n in range(3)]
    gate.open()
    await writer.close()
    assert await asyncio.gather(*queued) == notes() == ["0", "1", "2"]
    with pytest.raises(StoreUnavailable, match="closed"):
        writer.write(note("late"), Urgency.WORKER)
    lock.close()


async def test_every_commit_waits_for_the_lock_beside_the_file(
    writer: Writer, database: Path, notes: Callable[[], list[str]]
) -> None:
    another_lock = FileLock(database.with_suffix(".other"))
    unhindered = Writer(database)
    unhindered.open(another_lock, lambda _topics: None)
    with AnotherProcess("lock", database.with_suffix(".lock")) as other:
        assert await asyncio.to_thread(other.says) == "locked"
        waiting = writer.write(note("waiting"), Urgency.WORKER)
        for n in range(5):
            await unhindered.write(note(str(n)), Urgency.WORKER)
        other.tell()
        assert await waiting == "waiting"
    assert notes() == ["0", "1", "2", "3", "4", "waiting"]
    await unhindered.close()
    another_lock.close()


def in_another_loop(*writing: Callable[[], Awaitable[object]]) -> threading.Thread:
    """Write one thing after the other from a loop of its own, in a thread of its own."""

    async def write() -> None:
        for each in writing:
            await each()

    thread = threading.Thread(target=asyncio.run, args=(write(),))
    thread.start()
    return thread


async def test_what_another_loop_writes_does_not_need_ours(
    writer: Writer, notes: Callable[[], list[str]]
) -> None:
    await writer.write(note("ours"), Urgency.WORKER)
    for _ in range(3):
        await asyncio.sleep(0)  # its turn is over
    words = [f"theirs {number}" for number in range(20)]
    thread = in_another_loop(*(partial(writer.write, note(text), Urgency.WORKER) for text in words))
    thread.join(30)  # and all the while our own loop does nothing
    assert not thread.is_alive()
    assert notes() == ["ours", *words]


async def test_two_loops_write_at_the_same_time(
    writer: Writer, notes: Callable[[], list[str]]
) -> None:
    theirs = [f"theirs {number}" for number in range(300)]
    thread = in_another_loop(
        *(partial(writer.write, note(text), Urgency.WORKER) for text in theirs)
    )
    ours = [f"ours {number}" for number in range(300)]
    for number, text in enumerate(ours):
        await writer.write(note(text), Urgency(number % 3))
    await asyncio.to_thread(thread.join, 60)
    assert sorted(notes()) == sorted([*ours, *theirs])
    assert [text for text in notes() if text in theirs] == theirs


async def _turn_is_over() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


def tell(number: int, tx: Transaction) -> int:
    """Write a note, and return which thread ran the statement."""
    note(str(number))(tx)
    return threading.get_ident()


async def _write_alone(writer: Writer) -> list[bool]:
    """Write five notes, and tell for each whether this thread wrote it."""
    here = threading.get_ident()
    threads = [await writer.write(partial(tell, n), Urgency.WORKER) for n in range(5)]
    return [thread == here for thread in threads]


@pytest.mark.parametrize(("quick_s", "most"), [(3_600.0, 5), (0.0, 1)])
async def test_who_is_alone_on_its_loop_commits_there_if_turns_are_inline_policy(
    writer: Writer,
    notes: Callable[[], list[str]],
    monkeypatch: pytest.MonkeyPatch,
    quick_s: float,
    most: int,
) -> None:
    monkeypatch.setattr(inline_commit, "QUICK_SECONDS", quick_s)
    monkeypatch.setattr(inline_commit, "FIRST_PAUSE_SECONDS", 3_600.0)
    await writer.write(note("ours"), Urgency.WORKER)
    await _turn_is_over()
    writer._inline_policy = inline_commit.InlineCommitPolicy()
    here = await asyncio.to_thread(asyncio.run, _write_alone(writer))
    # One that was slow leaves the others to the thread.
    assert here == [number < most for number in range(5)]
    assert notes() == ["ours", *map(str, range(5))]


async def test_those_who_come_together_leave_the_commit_to_the_thread(
    writer: Writer, notes: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inline_commit, "QUICK_SECONDS", 3_600.0)
    writer._inline_policy._again_at = 0.0
    await writer.write(note("ours"), Urgency.WORKER)
    await _turn_is_over()

    async def write_together() -> set[bool]:
        here = threading.get_ident()
        writing = (writer.write(partial(tell, n), Urgency.WORKER) for n in range(5))
        return {thread == here for thread in await asyncio.gather(*writing)}

    assert await asyncio.to_thread(asyncio.run, write_together()) == {False}
    assert notes() == ["ours", *map(str, range(5))]


@pytest.mark.parametrize(("quick_s", "most"), [(3_600.0, 6), (0.0, 1)])
async def test_one_alone_is_committed_on_our_loop_if_turns_are_inline_policy(
    database: Path,
    notes: Callable[[], list[str]],
    monkeypatch: pytest.MonkeyPatch,
    quick_s: float,
    most: int,
) -> None:
    monkeypatch.setattr(inline_commit, "QUICK_SECONDS", quick_s)
    monkeypatch.setattr(inline_commit, "FIRST_PAUSE_SECONDS", 3_600.0)
    committed_by: list[int] = []
    lock = FileLock(database.with_suffix(".lock"))
    writer = Writer(database)
    writer.open(lock, lambda _: committed_by.append(threading.get_ident()))
    for number in range(6):
        await writer.write(note(str(number)), Urgency.SUBMIT)
    await writer.close()
    lock.close()
    here = [thread == threading.get_ident() for thread in committed_by]
    assert here == [number < most for number in range(6)]
    assert notes() == [str(number) for number in range(6)]


async def test_a_fault_of_one_that_is_alone_is_dealt_with_in_the_thread(
    writer: Writer, notes: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inline_commit, "QUICK_SECONDS", 3_600.0)
    writer._inline_policy._again_at = 0.0
    await writer.write(note("there"), Urgency.WORKER)
    ran: list[bool] = []

    def twice(tx: Transaction) -> None:
        ran.append(threading.current_thread() is threading.main_thread())
        note("new")(tx)
        note("there")(tx)

    with pytest.raises(StoreError):
        await writer.write(twice, Urgency.WORKER)
    assert ran == [True, False]
    await writer.write(note("after"), Urgency.WORKER)
    assert notes() == ["there", "after"]


async def test_a_loop_that_ends_before_its_turn_keeps_nobody_from_theirs(
    writer: Writer, notes: Callable[[], list[str]]
) -> None:
    async def ask_and_leave() -> None:
        writer.write(note("theirs"), Urgency.WORKER)
        asyncio.get_running_loop().stop()

    def live_shortly() -> None:
        loop = asyncio.new_event_loop()
        asking = loop.create_task(ask_and_leave())
        loop.run_forever()
        assert asking.done()
        loop.close()

    await writer.write(note("first"), Urgency.WORKER)
    await asyncio.to_thread(live_shortly)
    async with asyncio.timeout(30):
        await writer.write(note("ours"), Urgency.WORKER)
    assert notes()[0] == "first"
    assert notes()[-1] == "ours"


async def test_the_log_is_written_back_while_nobody_else_has_the_connection(
    writer: Writer, notes: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two threads on one connection are an error for both of them."""
    begun, over = threading.Event(), threading.Event()
    write_back = Writer._checkpoint

    def linger(writer: Writer) -> None:
        begun.wait(0.2)  # for an operation that should not come
        for _ in range(2_000):
            write_back(writer)
        over.set()

    def meet(text: str, tx: Transaction) -> str:
        begun.set()
        met = not over.is_set()
        return f"{note(text)(tx)} {met}"

    monkeypatch.setattr(inline_commit, "QUICK_SECONDS", 3_600.0)
    writer._inline_policy._again_at = 0.0
    await writer.write(note("first"), Urgency.WORKER)
    monkeypatch.setattr(Writer, "_checkpoint", linger)
    monkeypatch.setattr(writer_module, "CHECKPOINT_PAGES", 1)
    await writer.write(note("second"), Urgency.WORKER)
    monkeypatch.setattr(writer_module, "CHECKPOINT_PAGES", 1_000)
    assert await writer.write(partial(meet, "third"), Urgency.WORKER) == "third False"
    assert notes() == ["first", "second", "third"]


async def test_closing_waits_for_what_another_loop_has_begun(
    writer: Writer, notes: Callable[[], list[str]]
) -> None:
    gate = Gate()

    def hold(tx: Transaction) -> str:
        gate(tx)
        return note("theirs")(tx)

    thread = in_another_loop(lambda: writer.write(hold, Urgency.WORKER))
    await gate.entered()
    closing = asyncio.create_task(writer.close())
    await asyncio.sleep(0)
    assert not closing.done()
    gate.open()
    await closing
    await asyncio.to_thread(thread.join, 30)
    assert notes() == ["theirs"]


async def test_closing_finishes_what_another_loop_has_asked_for_and_not_got_to(
    writer: Writer, notes: Callable[[], list[str]]
) -> None:
    asked, go_on = threading.Event(), threading.Event()
    answers: list[str] = []

    async def ask() -> None:
        writing = writer.write(note("theirs"), Urgency.WORKER)
        asked.set()
        go_on.wait(30)  # its loop does nothing meanwhile
        answers.append(await writing)

    thread = in_another_loop(ask)
    await asyncio.to_thread(asked.wait)
    async with asyncio.timeout(30):
        await writer.close()
    assert notes() == ["theirs"]
    go_on.set()
    await asyncio.to_thread(thread.join, 30)
    assert answers == ["theirs"]
