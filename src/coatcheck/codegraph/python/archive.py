"""The modules of an archive: what they are called, and which file an import finds.

*Where imports look.* Python looks along `sys.path`, which an archive does not say. For a file, it
is the folder above its outermost package (a folder with an `__init__.py`), the folders above that
one, up to the archive's root, and the folders above the packages of the whole archive (`src`). A
folder without `__init__.py` is a package too where Python files are under it, but one that says
nothing of names it does not hold: those may come from elsewhere.

*What they are called* is the path from the root as dotted name, without a leading `src`, and
without folders at the front that no import could name (`project-1.0`).
"""

from __future__ import annotations

from dataclasses import dataclass

from coatcheck.codegraph.python.summary import Shelved

_SOURCE_ROOTS = {"src", "lib", "Lib", "python"}
_PROJECT_FILES = ("pyproject.toml", "setup.py", "setup.cfg")


@dataclass(slots=True)
class Module:
    """A file of Python, or a folder that is a package without a file of its own."""

    index: int
    path: str  # of the file, or of the folder
    name: str
    summary: Shelved | None
    is_package: bool
    base: int = 0  # its places start after this one
    definitions: int = 0  # its definitions start here
    functions: int = 0
    classes: int = 0
    public: tuple[str, ...] | None = None  # __all__, where it is written out
    stars: tuple[Module | str, ...] = ()

    @property
    def folder(self) -> str:
        """The folder that relative imports start from."""
        if self.is_package and self.summary is None:
            return self.path
        return self.path.rpartition("/")[0]


class SourceArchive:
    """Finds modules."""

    def __init__(self, summaries: dict[str, Shelved], other_files: set[str]) -> None:
        paths = sorted(summaries)
        self._packages = {
            path.rpartition("/")[0] for path in paths if path.rpartition("/")[2] in _INITS
        }
        self._project_folders = {
            path.rpartition("/")[0]
            for path in other_files | set(paths)
            if path.rpartition("/")[2] in _PROJECT_FILES
        }
        self.modules: list[Module] = []
        self._by_stem: dict[str, Module] = {}
        self._roots_of: dict[str, list[str]] = {}
        names: set[str] = set()
        for path in paths:
            self._add(path, summaries[path], names)
        self._folders = self._all_folders(paths)
        common = {self._root_above(path.rpartition("/")[0]) for path in paths}
        # The folder nearest to the root is the one that is meant to be on the path.
        self._common_roots = sorted(common, key=lambda root: (root.count("/"), root))

    def _add(self, path: str, summary: Shelved, names: set[str]) -> None:
        stem = path.rpartition(".")[0]
        is_package = stem.rpartition("/")[2] == "__init__"
        if is_package:
            stem = stem.rpartition("/")[0]
        if stem in self._by_stem and path.endswith(".pyi"):
            return  # the module itself is there: its stub says nothing more
        name = self._name(stem, names)
        names.add(name)
        module = Module(len(self.modules), path, name, summary, is_package)
        self.modules.append(module)
        self._by_stem[stem] = module

    def _name(self, stem: str, names: set[str]) -> str:
        parts = stem.split("/") if stem else ["__init__"]
        root = self._root_above(stem.rpartition("/")[0])
        depth = root.count("/") + 1 if root else 0
        is_root = root.rpartition("/")[2] in _SOURCE_ROOTS or root in self._project_folders
        if not (is_root and depth < len(parts)):
            depth = 0
            for index, part in enumerate(parts[:-1]):
                if not part.isidentifier() or (part == "src" and index == depth):
                    depth = index + 1
        name = ".".join(parts[depth:])
        return ".".join(parts) if name in names else name

    def _root_above(self, folder: str) -> str:
        """Return the folder above the outermost package that a folder is in."""
        while folder and folder in self._packages:
            folder = folder.rpartition("/")[0]
        return folder

    @staticmethod
    def _all_folders(paths: list[str]) -> set[str]:
        folders = set()
        for path in paths:
            folder = path.rpartition("/")[0]
            while folder and folder not in folders:
                folders.add(folder)
                folder = folder.rpartition("/")[0]
        return folders

    # --- finding

    def at(self, stem: str) -> Module | None:
        """Return the module at a path without its ending, or the package without `__init__`."""
        module = self._by_stem.get(stem)
        if module is None and stem in self._folders:
            name = stem.replace("/", ".")
            module = Module(len(self.modules), stem, name, None, True)
            self.modules.append(module)
            self._by_stem[stem] = module
        return module

    def submodule(self, package: Module, name: str) -> Module | None:
        """Return a module of a package."""
        if not package.is_package:
            return None
        folder = package.folder
        return self.at(f"{folder}/{name}" if folder else name)

    def absolute(self, importer: Module, name: str) -> Module | None:
        """Return what `import name` finds from a file, None if it is not of the archive."""
        path = name.replace(".", "/")
        folder = importer.folder
        roots = self._roots_of.get(folder)
        if roots is None:
            roots = self._roots_of[folder] = self._roots(folder)
        best: Module | None = None
        for root in roots:
            found = self.at(f"{root}/{path}" if root else path)
            if found is not None and found.summary is not None:
                return found
            best = best or found
        return best

    def _roots(self, folder: str) -> list[str]:
        root = self._root_above(folder)
        roots = [root]
        while root:
            root = root.rpartition("/")[0]
            roots.append(root)
        return list(dict.fromkeys([*roots, *self._common_roots]))

    def relative(self, importer: Module, dots: int, name: str) -> Module | None:
        """Return what `from ...name import` finds from a file."""
        folder = importer.folder
        for _ in range(dots - 1):
            if not folder:
                return None
            folder = folder.rpartition("/")[0]
        path = name.replace(".", "/")
        return self.at("/".join(part for part in (folder, path) if part))


_INITS = {"__init__.py", "__init__.pyi"}
