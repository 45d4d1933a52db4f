"""The ASGI application: routes, middleware, errors. Whoever runs it opens the engine first."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from coatcheck.engine.engine import Engine
from coatcheck.errors import CoatcheckError
from coatcheck.http.correlation import Correlation, ErrorBoundary
from coatcheck.http.guard import LoopbackGuard
from coatcheck.http.jobs import cancel_job, get_job, submit_job
from coatcheck.http.problem import answer_error


async def healthz(_request: Request) -> Response:
    """`GET /healthz`: this process answers."""
    return JSONResponse({"status": "ok"})


def create_http_app(engine: Engine) -> Starlette:
    """Build the application over an engine."""
    app = Starlette(
        routes=[
            Route("/v1/jobs", submit_job, methods=["POST"]),
            Route("/v1/jobs/{job_id}", get_job, methods=["GET"]),
            Route("/v1/jobs/{job_id}/cancel", cancel_job, methods=["POST"]),
            Route("/healthz", healthz, methods=["GET"]),
        ],
        middleware=[
            Middleware(Correlation),
            Middleware(ErrorBoundary),
            Middleware(LoopbackGuard),
        ],
        exception_handlers={
            CoatcheckError: answer_error,
            HTTPException: answer_error,
        },
    )
    app.router.redirect_slashes = False  # another address is another address: 404
    app.state.engine = engine
    return app
