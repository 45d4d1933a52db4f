"""Runs a program of the ground truth and records its calls."""

from __future__ import annotations

import ast
import inspect
import json
import subprocess
import sys
from pathlib import Path
from types import CodeType, FrameType

_COMMAND = "from tests.codegraph.runner import main; main()"
_TRANSPARENT = {"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"}
_RESUMED = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


def calls_when_run(folder: Path) -> set[tuple[str, str]]:
    """Run `main.py` of a folder in a process; return pairs of caller and callee."""
    ran = subprocess.run(
        [sys.executable, "-c", _COMMAND, str(folder)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stderr
    return {(caller, callee) for caller, callee in json.loads(ran.stdout.splitlines()[-1])}


def main() -> None:
    """Run the program named on the command line."""
    folder = Path(sys.argv[1]).resolve()
    sys.path.insert(0, str(folder))
    sys.dont_write_bytecode = True
    recorder = _Recorder(folder)
    source = (folder / "main.py").read_text()
    code = compile(source, str(folder / "main.py"), "exec")
    names = {"__name__": "__main__", "__file__": str(folder / "main.py")}
    sys.setprofile(recorder)
    try:
        exec(code, names)
    finally:
        sys.setprofile(None)
    print()
    print(json.dumps(sorted(recorder.calls)))


class _Recorder:
    """Records calls from the program to the program."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.calls: set[tuple[str, str]] = set()
        self._lambdas: dict[str, dict[int, str]] = {}

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event != "call" or not self._is_ours(code) or code.co_flags & _RESUMED:
            return
        if code.co_name in {*_TRANSPARENT, "<module>"} or _is_class_body(code):
            return
        caller = frame.f_back
        while caller is not None and (
            not self._is_ours(caller.f_code)
            or caller.f_code.co_name in _TRANSPARENT
            or _is_class_body(caller.f_code)
        ):
            caller = caller.f_back
        if caller is not None:
            self.calls.add((self._name(caller.f_code), self._name(code)))

    def _is_ours(self, code: CodeType) -> bool:
        return code.co_filename.startswith(str(self.folder))

    def _name(self, code: CodeType) -> str:
        path = Path(code.co_filename)
        parts = path.relative_to(self.folder).with_suffix("").parts
        module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        if code.co_name == "<module>":
            return module
        qualified = code.co_qualname.replace(".<locals>", "")
        if "<lambda>" in qualified:
            if code.co_filename not in self._lambdas:
                self._lambdas[code.co_filename] = _lambdas(path.read_text())
            qualified = self._lambdas[code.co_filename][code.co_firstlineno]
        return f"{module}.{qualified}"


def _is_class_body(code: CodeType) -> bool:
    return not code.co_flags & inspect.CO_OPTIMIZED and code.co_name != "<module>"


def _lambdas(source: str) -> dict[int, str]:
    """Return the names of lambdas by line; the programs have at most one on a line."""
    found: dict[int, str] = {}
    counts: dict[str, int] = {}

    def visit(node: ast.AST, around: str) -> None:
        inner = around
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inner = f"{around}.{node.name}" if around else node.name
        elif isinstance(node, ast.Lambda):
            counts[around] = counts.get(around, 0) + 1
            name = f"<lambda{counts[around]}>"
            inner = f"{around}.{name}" if around else name
            found[node.lineno] = inner
        for child in ast.iter_child_nodes(node):
            visit(child, inner)

    visit(ast.parse(source), "")
    return found
