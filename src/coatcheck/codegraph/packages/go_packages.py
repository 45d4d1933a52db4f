"""Packages of Go: folders, under the paths that go.mod files give them."""

from __future__ import annotations

import re

_MODULE = re.compile(rb"^\s*module\s+\"?([^\s\"]+)", re.MULTILINE)


def go_modules(manifests: dict[str, bytes]) -> dict[str, str]:
    """Return the folder of each module path, the longest path first."""
    found: dict[str, str] = {}
    for path in sorted(manifests):
        written = _MODULE.search(manifests[path])
        if written is not None:
            found[written.group(1).decode("utf-8", "replace")] = path.rpartition("/")[0]
    return dict(sorted(found.items(), key=lambda pair: -len(pair[0])))


def by_folder(path: str, package: str) -> str:
    """Return the name of a file's package, which is its folder; in the root, what it calls itself.

    Tests of a package from outside (`package x_test`) are a package of their own.
    """
    folder = path.rpartition("/")[0].replace("/", ".")
    if not folder:
        return package
    return f"{folder}_test" if package.endswith("_test") else folder
