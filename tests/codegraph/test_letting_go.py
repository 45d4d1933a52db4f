"""Memory does not grow with the code: what is known of it is in files, and goes when it is over."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from coatcheck.codegraph import SourceFile, analyse
from coatcheck.codegraph.collector import without_collecting
from coatcheck.codegraph.disk.column import Disk
from coatcheck.codegraph.disk.shelf import Shelf
from coatcheck.codegraph.python.archive import SourceArchive
from coatcheck.codegraph.python.flow import Flow
from coatcheck.codegraph.python.linker import Linker
from coatcheck.codegraph.python.summary import PythonSummary, Shelved
from coatcheck.codegraph.summarizer import summarise_one

PROGRAM = b"""
import functools

class Box:
    @functools.cache
    def open(self, *keys):
        return [key() for key in keys][0]

with Box() as box:
    box.open(print)
"""
# What the graph is drawn from.
KEPT = {"archive", "classes", "imported", "sites", "words", "_holds", "disk"}


def test_a_summary_comes_back_from_the_shelf_part_by_part() -> None:
    summary: PythonSummary = summarise_one("main.py", PROGRAM).summary
    shelf = Shelf(Disk())
    Shelved(shelf, PythonSummary(places=7).pack())
    shelved = Shelved(shelf, summary.pack())
    assert shelved.take("actions").calls == summary.calls != []
    assert shelved.take("actions").loads == []
    parts = ("head", "definitions", "made", "names", "items", "actions")
    assert shelved.take(*parts) == summary


def test_what_is_not_drawn_is_let_go_of_once_it_is_linked() -> None:
    shelved = Shelved(Shelf(Disk()), summarise_one("main.py", PROGRAM).summary.pack())
    linker = Linker(SourceArchive({"main.py": shelved}, set()))
    linked = linker.link()
    assert vars(linker).keys() == KEPT
    assert [(target, line) for _, target, line in linked.calls] == [("functools.cache", 5)]


# A class that is not like any other, so that there is as much to be known of each.
MODULE = """
class Item{n}:
    def __init__(self, value):
        self.value = value
        self.items = [value, self.make, "text {n}"]

    def make(self, *rest, key=None):
        return [Item{n}(one).take(key) for one in rest]

    def take(self, key):
        table = {{"first": self.make, "second": self.value, "third {n}": key}}
        for name, one in table.items():
            self.items.append(one)
            table[name] = lambda: self.take(one)
        return table["first"](*self.items, key=table["second"])

item{n} = Item{n}(len)
item{n}.make(item{n}.take, key=item{n})
"""


def files(count: int, classes: int) -> list[SourceFile]:
    """Return modules with so many classes each."""
    return [
        SourceFile(f"m{number}.py", lambda number=number: module(number, classes))  # type: ignore[misc]
        for number in range(count)
    ]


def module(number: int, classes: int) -> bytes:
    return "".join(MODULE.format(n=f"{number}_{one}") for one in range(classes)).encode()


def private() -> int:
    """Return how much memory this process has that nobody but itself could give back."""
    status = Path("/proc/self/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("RssAnon"))
    return 1024 * int(line.split()[1])


def mapped() -> int:
    """Return how many files without a name are mapped into this process."""
    return Path("/proc/self/maps").read_text().count("(deleted)")


def measured(count: int) -> tuple[int, int]:
    """Return how much more private memory there was at the most while modules were linked."""
    most = 0
    take_breath = Linker.take_breath

    def look(self: Flow) -> None:
        nonlocal most
        most = max(most, private())
        take_breath(self)

    Linker.take_breath = look  # type: ignore[method-assign]
    analyse(files(20, 10), {"call"}, workers=1)
    before, most = private(), 0
    graph = analyse(files(count, 100), {"call"}, workers=1)
    return most - before, len(graph.edges)


def apart(count: int) -> tuple[int, int]:
    """Return what is measured in a process that has done nothing else."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(measured, count).result()


def test_what_is_known_of_four_times_the_code_takes_little_more_memory() -> None:
    (few, fewer_edges), (many, edges) = apart(10), apart(40)
    assert edges > 3.9 * fewer_edges
    # In memory alone it took 68 MB more. What does grow is what the graph shows, as classes.
    assert many - few < 20_000_000


def test_no_file_is_left_mapped_while_nobody_looks_for_garbage() -> None:
    with without_collecting():
        before = mapped()
        graph = analyse(files(10, 100), {"call"}, workers=1)
        assert graph.edges
        assert mapped() == before
