"""The shape of the source tree: unique class names, small packages, modules named by nouns."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src" / "coatcheck"
MODULES = sorted(SOURCE.rglob("*.py"))
# Nouns that end in -ing.
NOUNS = {"embedding", "encoding", "ranking", "string", "testing", "tracing"}
MOST_MODULES = 18
# Flat by design: a module per command, per value, and per topic of the conformance suite.
FLAT = {"cli/commands", "model", "testing/conformance"}


def test_a_class_name_is_defined_once() -> None:
    defined: dict[str, set[str]] = defaultdict(set)
    for module in MODULES:
        for node in ast.walk(ast.parse(module.read_text())):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                defined[node.name].add(str(module.relative_to(SOURCE)))
    assert {name: where for name, where in defined.items() if len(where) > 1} == {}


def test_a_package_has_a_readable_number_of_modules() -> None:
    sizes = Counter(str(module.parent.relative_to(SOURCE)) for module in MODULES)
    large = {package: size for package, size in sizes.items() if size > MOST_MODULES}
    assert large.keys() <= FLAT, large


def test_no_module_is_named_by_a_gerund() -> None:
    words = {module.stem.rpartition("_")[2] for module in MODULES} - NOUNS
    assert sorted(word for word in words if word.endswith("ing")) == []
