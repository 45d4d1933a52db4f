"""The paths of a target that are called with the operator's token.

A request never decides which path is called. Each route names one of `UPSTREAM_PATHS`, or builds
the path of a model from its validated name; `ModelTarget.call` rejects any other path.
"""

from __future__ import annotations

import re
from urllib.parse import quote

from starlette.exceptions import HTTPException

CHAT, GENERATE = "/api/chat", "/api/generate"
OPENAI_CHAT, OPENAI_COMPLETIONS = "/v1/chat/completions", "/v1/completions"
TAGS, PS, SHOW, VERSION = "/api/tags", "/api/ps", "/api/show", "/api/version"
EMBED, EMBEDDINGS, OPENAI_EMBEDDINGS = "/api/embed", "/api/embeddings", "/v1/embeddings"
OPENAI_MODELS = "/v1/models"
# Model calls, which are queued.
QUEUED = (CHAT, GENERATE, OPENAI_CHAT, OPENAI_COMPLETIONS)
UPSTREAM_PATHS = frozenset(
    {*QUEUED, TAGS, PS, SHOW, VERSION, EMBED, EMBEDDINGS, OPENAI_EMBEDDINGS, OPENAI_MODELS}
)
MAX_MODEL_NAME = 200
# [host[:port]/][namespace/]model[:tag], as Ollama names models. No segment starts with a dot.
_SEGMENT = r"[A-Za-z0-9_][A-Za-z0-9_.:-]*"
_MODEL_NAME = re.compile(rf"{_SEGMENT}(?:/{_SEGMENT})*")
_MODEL_PATH = re.compile(rf"{OPENAI_MODELS}(?:/{_SEGMENT})+")


def model_path(model: str) -> str:
    """Return the path of a model; raises a 400 for an invalid name."""
    if len(model) > MAX_MODEL_NAME or _MODEL_NAME.fullmatch(model) is None:
        raise HTTPException(400, "invalid model name")
    return f"{OPENAI_MODELS}/{quote(model, safe='/:')}"


def check_upstream_path(path: str) -> None:
    """Raise ValueError unless a path may be called with the operator's token."""
    if path not in UPSTREAM_PATHS and _MODEL_PATH.fullmatch(path) is None:
        raise ValueError("this path is not one of the upstream paths that may be called")
