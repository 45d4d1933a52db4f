"""Who is signed in to a Django app: a ready hook for `Coatcheck(..., authorize=signed_in)`.

Django's views look for themselves who calls, behind decorators and mixins that nobody can ask
without running them. So its session is asked, by Django's own means.
"""

from __future__ import annotations

import io
from importlib import import_module
from typing import Any

from coatcheck.middleware.app_call import Scope
from coatcheck.middleware.authorize import Identity


async def signed_in(scope: Scope) -> Identity | None:
    """Return whose session a request belongs to; None where nobody is signed in by it."""
    # The app's part, not ours: it is there where this is used.
    from django.conf import settings  # noqa: PLC0415
    from django.contrib.auth import aget_user  # noqa: PLC0415
    from django.core.handlers.asgi import ASGIRequest  # noqa: PLC0415

    request: Any = ASGIRequest(dict(scope), io.BytesIO())
    key = request.COOKIES.get(settings.SESSION_COOKIE_NAME)
    request.session = import_module(settings.SESSION_ENGINE).SessionStore(key)
    user = await aget_user(request)
    if not user.is_authenticated or not user.is_active:
        return None
    return {"user_id": str(user.pk)}
