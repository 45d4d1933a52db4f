"""Linking files of Java and of Go: packages, and what their classes do."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

from coatcheck.codegraph.disk.column import Disk
from coatcheck.codegraph.packages.java import STATIC
from coatcheck.codegraph.python.archive import Module, SourceArchive
from coatcheck.codegraph.python.attributes import Load
from coatcheck.codegraph.python.call_sites import Site
from coatcheck.codegraph.python.functions import LinkedFunction
from coatcheck.codegraph.python.linker import Linker
from coatcheck.codegraph.python.objects import ObjectKind
from coatcheck.codegraph.python.summary import PythonSummary, Shelved

_JAVA_LANG_WORDS = (
    "Object String StringBuilder StringBuffer System Math Integer Long Short Byte Double "
    "Float Boolean Character Number Thread Runnable Iterable Comparable Exception "
    "RuntimeException Error IllegalArgumentException IllegalStateException "
    "NullPointerException Throwable Class Enum UnsupportedOperationException "
    "IndexOutOfBoundsException InterruptedException Process ArithmeticException "
    "ClassCastException CloneNotSupportedException AutoCloseable Record ProcessBuilder "
    "Runtime ThreadLocal Void CharSequence StackTraceElement AssertionError"
)
_JAVA_LANG = frozenset(_JAVA_LANG_WORDS.split())
_GO_BUILTINS_WORDS = (
    "append cap clear close complex copy delete imag len make max min new panic print "
    "println real recover"
)
_GO_BUILTINS = frozenset(_GO_BUILTINS_WORDS.split())


class PackageArchive(SourceArchive):
    """Knows which files make up a package; `named` names it by a file's path and what it says."""

    def __init__(
        self,
        summaries: dict[str, Shelved],
        named: Callable[[str, str], str] = lambda _, package: package,
    ) -> None:
        self.modules = []
        self.packages: dict[str, list[Module]] = {}
        for path in sorted(summaries):
            summary = summaries[path]
            package = named(path, summary.take("head").package)
            module = Module(len(self.modules), path, package, summary, is_package=False)
            self.modules.append(module)
            self.packages.setdefault(package, []).append(module)
        self._folders: set[str] = set()

    def submodule(self, package: Module, name: str) -> Module | None:
        """Return None: packages hold no others."""
        del package, name
        return None


class PackageLinker(Linker):
    """What linking Java and Go have in common."""

    archive: PackageArchive
    makes_all_constructors = True

    def in_package(self, package: str, name: str) -> tuple[Module, int] | None:
        """Return the file of a package that has a name, and its place."""
        for module in self.archive.packages.get(package, ()):
            place = self.export(module, name)
            if place is not None:
                return module, place
        return None

    def _find_stars(self, module: Module, summary: PythonSummary) -> None:
        for _, name, line in summary.stars:
            module.stars += (name,)
            files = self.archive.packages.get(name)
            self._note_import(module, files[0].index if files else name, line)

    def _link_unknown(self, module: Module, place: int, name: str) -> None:
        packages = [module.name, *(star for star in module.stars if isinstance(star, str))]
        for package in packages:
            found = self.in_package(package, name)
            if found is not None and found[0] is not module:
                self.copy(found[1], place)
                return
        self._link_language(module, place, name)

    @abstractmethod
    def _link_language(self, module: Module, place: int, name: str) -> None:
        """Find a name that the language brings with it."""

    def _on_class(self, value: int, data: tuple[int]) -> None:
        # What is declared as something from outside has the methods that it has there.
        if self.objects.kind[value] is ObjectKind.EXTERNAL:
            self.add(data[0], value)
        else:
            super()._on_class(value, data)

    def call_outside(self, value: int, site: Site) -> None:
        """Call something that is not of the archive."""
        kind = self.objects.kind[value]
        if kind is ObjectKind.EXTERNAL:
            # A constructor from outside is called by its class's name.
            self.edge(site, self.objects.first[value].removesuffix(".__init__"))
        elif kind is ObjectKind.BUILTIN and self.sites.is_silent(site.number):
            super().call_outside(value, site)
        elif kind is ObjectKind.BUILTIN:
            self.edge(site, f"<builtin>.{self.objects.first[value]}")


class JavaLinker(PackageLinker):
    """Links Java."""

    def _link_import(
        self, module: Module, place: int, dots: int, name: str, attribute: str | None, line: int
    ) -> None:
        del dots
        attribute = attribute or ""
        found = self.in_package(name, attribute)
        if found is not None:
            self._note_import(module, found[0].index, line)
            self.copy(found[1], place)
            return
        package, _, cls = name.rpartition(".")
        owner = self.in_package(package, cls)
        if owner is not None:  # import static, or a class in a class
            self._note_import(module, owner[0].index, line)
            self.watch(owner[1], self.on_load, (place, self.words[attribute], 0, line))
            return
        self._note_import(module, f"{name}.{attribute}", line)
        self.add(place, self.external(f"{name}.{attribute}"))

    def _link_language(self, module: Module, place: int, name: str) -> None:
        outside = [
            star
            for star in module.stars
            if isinstance(star, str) and star not in self.archive.packages
        ]
        if name == STATIC:
            self.add(place, self.objects.make(ObjectKind.BUILTIN, "classmethod"))
        elif name.rstrip("%") in _JAVA_LANG:
            self.add(place, self.external(f"java.lang.{name.rstrip('%')}"))
        elif len(outside) == 1 and name[:1].isupper():
            self.add(place, self.external(f"{outside[0]}.{name}"))

    def on_load(self, value: int, load: Load) -> None:
        """Send `value.attribute` to the load's result; a lambda has one method, itself."""
        if self.objects.kind[value] in {ObjectKind.FUNCTION, ObjectKind.BOUND}:
            self.add(load[0], value)
        else:
            super().on_load(value, load)

    def call_function(self, function: LinkedFunction, receiver: int | None, site: Site) -> None:
        """Call a function, if it takes that many arguments."""
        is_method = function.owner >= 0
        if is_method and receiver is None:
            positional = (0, *site.positional)
            site = self.sites.new(site.result, positional, (), site.runner, site.line)
        given = len(site.positional) + (receiver is not None)
        taken = len(function.positional)
        if given == taken or (function.rest and given >= taken):
            super().call_function(function, receiver, site)


class GoLinker(PackageLinker):
    """Links Go; `modules` are the paths that go.mod files give to folders."""

    makes_all_constructors = False

    def __init__(self, archive: PackageArchive, disk: Disk, modules: dict[str, str]) -> None:
        super().__init__(archive, disk)
        self._modules = modules

    def _package_at(self, path: str) -> str | None:
        for module, folder in self._modules.items():
            if path == module or path.startswith(f"{module}/"):
                inside = "/".join(part for part in (folder, path[len(module) + 1 :]) if part)
                package = inside.replace("/", ".")
                if not inside:
                    # The root's package is called what it calls itself.
                    roots = [one.name for one in self.archive.modules if "/" not in one.path]
                    package = next((name for name in roots if not name.endswith("_test")), "")
                return package if package in self.archive.packages else None
        return None

    def _link_import(
        self, module: Module, place: int, dots: int, name: str, attribute: str | None, line: int
    ) -> None:
        del dots, attribute
        package = self._package_at(name)
        if package is None:
            self._note_import(module, name, line)
            self.add(place, self.external(name))
            return
        files = self.archive.packages[package]
        self._note_import(module, files[0].index, line)
        self.add(place, self.objects.make(ObjectKind.MODULE, files[0].index))

    def _find_in_module(self, module: Module, attribute: str, result: int, seen: set[int]) -> bool:
        del seen
        found = self.in_package(module.name, attribute)
        if found is not None:
            self.copy(found[1], result)
        return found is not None

    def _link_language(self, module: Module, place: int, name: str) -> None:
        del module
        if name in _GO_BUILTINS:
            self.add(place, self.objects.make(ObjectKind.BUILTIN, name))
