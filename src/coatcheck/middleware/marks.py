"""How calls that the middleware makes itself are told from those of others."""

from __future__ import annotations

from coatcheck.middleware.app_call import ASGIApp, Scope

# In the scope of a replayed call: the context of its job. It is never intercepted again.
REPLAY = "coatcheck"
# In the scope of a dry call (middleware/fastapi_probe.py).
DRY_CALL = "coatcheck.dry_call"


def is_ours(scope: Scope) -> bool:
    """Tell whether a call is made by the middleware itself, and is for the app."""
    return REPLAY in scope or DRY_CALL in scope


def target_of(scope: Scope, wrapped: ASGIApp) -> ASGIApp:
    """Return what to call for the app: what is wrapped; or, where the middleware was added to a
    Starlette app and stands inside it, that app, so that what stands outside is passed too.
    """
    outer: ASGIApp = scope.get("app") or wrapped
    return outer
