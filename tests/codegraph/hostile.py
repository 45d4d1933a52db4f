"""Small archives that take a careless analysis very long.

Some samples exist for every language, since grammars have much in common; others for one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from coatcheck.codegraph import languages

MANY = 2_000

# The extension of each language; a PHP file needs a prefix.
ENDINGS = {language: ending for ending, language in reversed(languages._BY_ENDING.items())}
_BEGIN = {"php": "<?php\n"}

FOR_ALL = {
    "brackets": "}{)(][\n" * MANY,
    "open calls": "f(\n" * MANY,
    "open blocks": "{\n" * MANY,
    "less than": "a<b>c<\n" * MANY,
    "quotes": "'\"\n" * MANY,
    "open comments": "/*\n" * MANY,
    "classes without bodies": "class A \n" * MANY,
    "calls of calls": "f(g(h(\n1)))\n" * MANY,
    "open texts": '"${#{\n' * MANY,
    "stars": "*a&b\n" * MANY,
}


def _lines(line: Callable[[int], str], times: int = MANY) -> str:
    return "\n".join(line(n) for n in range(times)) + "\n"


# By language: classes that each inherit from the one before, with a method.
CHAINS: Mapping[str, Callable[[int], str]] = {
    "python": lambda n: f"class C{n + 1}(C{n}):\n    def m(self):\n        super().m()",
    "javascript": lambda n: f"class C{n + 1} extends C{n} {{ m() {{ super.m(); }} }}",
    "typescript": lambda n: f"class C{n + 1} extends C{n} {{ m() {{ super.m(); }} }}",
    "tsx": lambda n: f"class C{n + 1} extends C{n} {{ m() {{ super.m(); }} }}",
    "java": lambda n: f"class C{n + 1} extends C{n} {{ void m() {{ super.m(); }} }}",
    "go": lambda n: f"type C{n + 1} struct {{ C{n} }}\nfunc (c C{n + 1}) m() {{ c.C{n}.m() }}",
    "rust": lambda n: f"trait C{n + 1}: C{n} {{ fn m(&self) {{ self.m() }} }}",
    "c": lambda n: f"struct C{n + 1} {{ struct C{n} c; }};\nvoid m{n + 1}() {{ m{n}(); }}",
    "cpp": lambda n: f"class C{n + 1} : C{n} {{ void m() {{ C{n}::m(); }} }};",
    "csharp": lambda n: f"class C{n + 1} : C{n} {{ void m() {{ base.m(); }} }}",
    "ruby": lambda n: f"class C{n + 1} < C{n}\n  def m\n    super()\n  end\nend",
    "php": lambda n: f"class C{n + 1} extends C{n} {{ function m() {{ parent::m(); }} }}",
}

OTHERS: Mapping[str, str] = {
    "many.py": _lines(lambda n: f"class C{n}: pass")
    + f"class D({','.join(f'C{n}' for n in range(MANY))}): pass\n",
    "cross.py": _lines(lambda n: f"class C{n}({','.join(f'C{m}' for m in range(n))}): pass", 100),
    "late.py": "def same(x):\n    return x\n\n\nclass C0:\n    pass\n\n\n"
    + _lines(lambda n: f"class C{n + 1}(same(C{n})):\n    pass", 300),
    "copies.py": "def x0(): pass\n" + _lines(lambda n: f"x{n + 1} = x{n}") + f"x{MANY}()\n",
    "mesh.py": _lines(lambda n: f"def f{n}(x):\n    x(f{n * 7 % 200})\n    return x", 200)
    + _lines(lambda n: f"f{n % 200}(f{n * 31 % 200})"),
    "boxes.py": "x0 = [len]\n" + _lines(lambda n: f"x{n + 1} = [x{n}]", 1_000),
    "wrapped.py": "def d(f): return f\n" + "@d\n" * MANY + "def f(): pass\n",
    "Faces.java": _lines(
        lambda n: (
            f"interface I{n + 1} extends "
            + ",".join(f"I{m}" for m in range(max(0, n - 5), n + 1))
            + " { void m(); }"
        ),
        800,
    ),
    "call.java": f"class A {{ A m() {{ return this; }} void t() {{ this{'.m()' * 1_000}; }} }}",
    "objects.js": "let o = {};\n" + _lines(lambda n: f"o = {{a: o, b{n}() {{ o.a(); }}}};", 1_000),
}


def archives() -> dict[str, dict[str, bytes]]:
    """Return the files of each sample by name; a name starts with the language."""
    found: dict[str, dict[str, bytes]] = {}
    for language, ending in ENDINGS.items():
        begin = _BEGIN.get(language, "")
        for name, text in FOR_ALL.items():
            found[f"{language}: {name}"] = {f"a.{ending}": (begin + text).encode()}
        if language in CHAINS:
            text = begin + _lines(CHAINS[language])
            found[f"{language}: a chain of classes"] = {f"a.{ending}": text.encode()}
    for name, text in OTHERS.items():
        found[f"{languages.language_of(name)}: {name}"] = {name: text.encode()}
    text = "from m{} import *\nfrom m{} import *\ny()\n"
    found["python: names from everywhere"] = {
        f"m{n}.py": text.format((n + 1) % 200, (n + 7) % 200).encode() for n in range(200)
    }
    return found
