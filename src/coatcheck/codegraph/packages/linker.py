"""The linkers for Java and Go: packages, and the behavior of their classes."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable

from coatcheck.codegraph.packages.java import STATIC
from coatcheck.codegraph.points_to import kinds
from coatcheck.codegraph.points_to.archive import Module, SourceArchive
from coatcheck.codegraph.points_to.attributes import Load
from coatcheck.codegraph.points_to.call_sites import CallSite
from coatcheck.codegraph.points_to.linker import Linker
from coatcheck.codegraph.points_to.program import LinkedFunction
from coatcheck.codegraph.summary import PackedSummary

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


_MODULE = re.compile(rb"^\s*module\s+\"?([^\s\"]+)", re.MULTILINE)


class PackageArchive(SourceArchive):
    """Groups files into packages; `named` names the package of a path and a declared name."""

    def __init__(
        self,
        summaries: dict[str, PackedSummary],
        named: Callable[[str, str], str] = lambda _, package: package,
    ) -> None:
        self.modules = []
        self.packages: dict[str, list[Module]] = {}
        for path in sorted(summaries):
            summary = summaries[path]
            package = named(path, summary.load("head").package)
            module = Module(len(self.modules), path, package, summary, is_package=False)
            self.modules.append(module)
            self.packages.setdefault(package, []).append(module)
        self._folders: set[str] = set()

    def submodule(self, package: Module, name: str) -> Module | None:
        """Return None: packages have no submodules."""
        del package, name
        return None


class PackageLinker(Linker):
    """The common part of the linkers for Java and Go."""

    archive: PackageArchive
    implicit_constructors = True

    def in_package(self, package: str, name: str) -> tuple[Module, int] | None:
        """Return the file of a package that declares a name, and the variable."""
        for module in self.archive.packages.get(package, ()):
            var = module.exports.get(name)
            if var is not None:
                return module, var
        return None

    def _find_stars(self, module: Module, stars: list[tuple[int, str, int]]) -> None:
        for _, name, line in stars:
            module.stars += (name,)
            files = self.archive.packages.get(name)
            self._note_import(module, files[0].index if files else name, line)

    def _link_unknown(self, module: Module, var: int, name: str) -> None:
        packages = [module.name, *(star for star in module.stars if isinstance(star, str))]
        for package in packages:
            found = self.in_package(package, name)
            if found is not None and found[0] is not module:
                self.copy(found[1], var)
                return
        self._link_language(module, var, name)

    @abstractmethod
    def _link_language(self, module: Module, var: int, name: str) -> None:
        """Resolve a name of the language itself."""

    def _on_class(self, value: int, result: int) -> None:
        # A variable with an external type has the methods of that type.
        if self.kind[value] == kinds.EXTERNAL:
            self.add(result, value)
        else:
            super()._on_class(value, result)

    def call_outside(self, value: int, site: CallSite) -> None:
        """Call an object from outside the archive."""
        kind = self.kind[value]
        if kind == kinds.EXTERNAL:
            # An external constructor is called by its class's name.
            self.edge(site, self.first[value].removesuffix(".__init__"))
        elif kind == kinds.BUILTIN and site.is_declaration:
            super().call_outside(value, site)
        elif kind == kinds.BUILTIN:
            self.edge(site, f"<builtin>.{self.first[value]}")


class JavaLinker(PackageLinker):
    """Links Java."""

    def _link_import(
        self, module: Module, var: int, dots: int, name: str, attribute: str | None, line: int
    ) -> None:
        del dots
        attribute = attribute or ""
        found = self.in_package(name, attribute)
        if found is not None:
            self._note_import(module, found[0].index, line)
            self.copy(found[1], var)
            return
        package, _, cls = name.rpartition(".")
        owner = self.in_package(package, cls)
        if owner is not None:  # import static, or a nested class
            self._note_import(module, owner[0].index, line)
            self.subscribe(owner[1], self.on_load, (var, attribute, 0, line))
            return
        self._note_import(module, f"{name}.{attribute}", line)
        self.add(var, self.external(f"{name}.{attribute}"))

    def _link_language(self, module: Module, var: int, name: str) -> None:
        outside = [
            star
            for star in module.stars
            if isinstance(star, str) and star not in self.archive.packages
        ]
        if name == STATIC:
            self.add(var, self.make(kinds.BUILTIN, "classmethod"))
        elif name.rstrip("%") in _JAVA_LANG:
            self.add(var, self.external(f"java.lang.{name.rstrip('%')}"))
        elif len(outside) == 1 and name[:1].isupper():
            self.add(var, self.external(f"{outside[0]}.{name}"))

    def on_load(self, value: int, load: Load) -> None:
        """Load an attribute; the only method of a lambda is the lambda."""
        if self.kind[value] in {kinds.FUNCTION, kinds.BOUND}:
            self.add(load[0], value)
        else:
            super().on_load(value, load)

    def call_function(self, function: LinkedFunction, receiver: int | None, site: CallSite) -> None:
        """Call a function if the number of arguments matches."""
        is_method = function.owner >= 0
        if is_method and receiver is None:
            positional = (0, *site.positional)
            site = CallSite(site.result, positional, (), site.caller, site.line)
        given = len(site.positional) + (receiver is not None)
        taken = len(function.positional)
        if given == taken or (function.rest and given >= taken):
            super().call_function(function, receiver, site)


class GoLinker(PackageLinker):
    """Links Go; `modules` are the module paths of the go.mod files, with their folders."""

    implicit_constructors = False

    def __init__(self, archive: PackageArchive, modules: dict[str, str]) -> None:
        super().__init__(archive)
        self._modules = modules

    def _package_at(self, path: str) -> str | None:
        for module, folder in self._modules.items():
            if path == module or path.startswith(f"{module}/"):
                inside = "/".join(part for part in (folder, path[len(module) + 1 :]) if part)
                package = inside.replace("/", ".")
                if not inside:
                    # The package in the root has its declared name.
                    roots = [one.name for one in self.archive.modules if "/" not in one.path]
                    package = next((name for name in roots if not name.endswith("_test")), "")
                return package if package in self.archive.packages else None
        return None

    def _link_import(
        self, module: Module, var: int, dots: int, name: str, attribute: str | None, line: int
    ) -> None:
        del dots, attribute
        package = self._package_at(name)
        if package is None:
            self._note_import(module, name, line)
            self.add(var, self.external(name))
            return
        files = self.archive.packages[package]
        self._note_import(module, files[0].index, line)
        self.add(var, self.make(kinds.MODULE, files[0].index))

    def _find_in_module(self, module: Module, attribute: str, result: int, seen: set[int]) -> bool:
        del seen
        found = self.in_package(module.name, attribute)
        if found is not None:
            self.copy(found[1], result)
        return found is not None

    def _link_language(self, module: Module, var: int, name: str) -> None:
        del module
        if name in _GO_BUILTINS:
            self.add(var, self.make(kinds.BUILTIN, name))


def go_modules(manifests: dict[str, bytes]) -> dict[str, str]:
    """Return the folder of each module path, the longest path first."""
    found: dict[str, str] = {}
    for path in sorted(manifests):
        written = _MODULE.search(manifests[path])
        if written is not None:
            found[written.group(1).decode("utf-8", "replace")] = path.rpartition("/")[0]
    return dict(sorted(found.items(), key=lambda pair: -len(pair[0])))


def go_package(path: str, package: str) -> str:
    """Return the name of a file's package: its folder, or in the root its declared name.

    External tests of a package (`package x_test`) are a package of their own.
    """
    folder = path.rpartition("/")[0].replace("/", ".")
    if not folder:
        return package
    return f"{folder}_test" if package.endswith("_test") else folder
