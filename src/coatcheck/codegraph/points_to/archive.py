"""The Python modules of an archive: their names, and import resolution.

*Import path.* An archive does not state its `sys.path`. For a file, the analysis searches the
folder above its outermost package (a folder with an `__init__.py`), the folders above that one up
to the archive's root, and the folders above all packages of the archive (`src`). A folder without
`__init__.py` is a namespace package if there are Python files below it. Names that it does not have
may come from outside the archive.

*Module names.* The path from the root as a dotted name, without a leading `src`, and without
leading folders that no import could name (`project-1.0`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from coatcheck.codegraph.summary import PackedSummary

_SOURCE_ROOTS = {"src", "lib", "Lib", "python"}
_PROJECT_FILES = ("pyproject.toml", "setup.py", "setup.cfg")


@dataclass(slots=True)
class Module:
    """A Python file, or a namespace package."""

    index: int
    path: str  # of the file, or of the folder
    name: str
    summary: PackedSummary | None
    is_package: bool
    base: int = 0  # its variables start after this one
    definitions: int = 0  # its definitions start here
    functions: int = 0
    classes: int = 0
    exports: dict[str, int] = field(default_factory=dict)  # the variables of its names
    public: tuple[str, ...] | None = None  # __all__, if it is a literal
    stars: tuple[Module | str, ...] = ()

    @property
    def folder(self) -> str:
        """The folder that relative imports start from."""
        if self.is_package and self.summary is None:
            return self.path
        return self.path.rpartition("/")[0]


class SourceArchive:
    """Resolves imports to modules."""

    def __init__(self, summaries: dict[str, PackedSummary], other_files: set[str]) -> None:
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
        # The folder nearest to the root comes first.
        self._common_roots = sorted(common, key=lambda root: (root.count("/"), root))

    def _add(self, path: str, summary: PackedSummary, names: set[str]) -> None:
        stem = path.rpartition(".")[0]
        is_package = stem.rpartition("/")[2] == "__init__"
        if is_package:
            stem = stem.rpartition("/")[0]
        if stem in self._by_stem and path.endswith(".pyi"):
            return  # the module itself takes precedence over its stub
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
        """Return the folder above a folder's outermost package."""
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

    # --- resolution

    def at(self, stem: str) -> Module | None:
        """Return the module at a path without extension, or the namespace package."""
        module = self._by_stem.get(stem)
        if module is None and stem in self._folders:
            name = stem.replace("/", ".")
            module = Module(len(self.modules), stem, name, None, True)
            self.modules.append(module)
            self._by_stem[stem] = module
        return module

    def submodule(self, package: Module, name: str) -> Module | None:
        """Return a submodule of a package, if there is one."""
        if not package.is_package:
            return None
        folder = package.folder
        return self.at(f"{folder}/{name}" if folder else name)

    def absolute(self, importer: Module, name: str) -> Module | None:
        """Resolve `import name` in a file; return None if the module is external."""
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
        """Resolve `from ...name import` in a file."""
        folder = importer.folder
        for _ in range(dots - 1):
            if not folder:
                return None
            folder = folder.rpartition("/")[0]
        path = name.replace(".", "/")
        return self.at("/".join(part for part in (folder, path) if part))


_INITS = {"__init__.py", "__init__.pyi"}
