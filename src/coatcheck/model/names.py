"""Names of kinds, queues, tenants and events: URLs and logs carry them unescaped."""

from __future__ import annotations

import re

NAME_RULE = "use 1 to 100 letters, digits, and _ . : -"

NAME_PATTERN = "[A-Za-z0-9_][A-Za-z0-9_.:-]{0,99}"

_NAME = re.compile(NAME_PATTERN)


def is_name(text: str) -> bool:
    """Tell whether a text is a valid name."""
    return _NAME.fullmatch(text) is not None
