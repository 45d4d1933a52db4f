"""A ready-made hook for Django apps: `Coatcheck(..., authorize=signed_in)`.

Django views check the caller themselves, in decorators and mixins that cannot run without the view.
So the hook reads the session with Django's own functions.
"""

from __future__ import annotations

import io
from importlib import import_module
from typing import Any

from coatcheck.middleware.app_call import Scope
from coatcheck.middleware.authorize import Identity


async def signed_in(scope: Scope) -> Identity | None:
    """Return the user of a request's session; None if nobody is signed in."""
    # Django is the app's dependency, not ours: it is installed if this is used.
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
