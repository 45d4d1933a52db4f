"""Probes of a FastAPI app authorize callers without running the endpoint."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Annotated, Any

import pytest
from fastapi import (
    APIRouter,
    Cookie,
    Depends,
    FastAPI,
    Header,
    HTTPException,
    Request,
    UploadFile,
    routing,
)
from fastapi.routing import APIRoute
from fastapi.security import APIKeyHeader, HTTPAuthorizationCredentials, HTTPBearer
from pydantic import BaseModel
from starlette.applications import Starlette
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import JSONResponse, PlainTextResponse, Response

from coatcheck.errors import ConfigurationError
from coatcheck.middleware.authorize import AuthorizationMissing, Authorized, Rejected
from coatcheck.middleware.fastapi_probe import FastApiAuthorizer, check_fastapi

from .requests import Answer, body_of, scope_of

pytestmark = pytest.mark.anyio
ANNA = {"Authorization": "Bearer anna"}
JSON = {"Content-Type": "application/json"}


class Order(BaseModel):
    pages: int


class Ran(list[str]):
    """The parts of an app that ran."""


@pytest.fixture
def ran() -> Ran:
    return Ran()


def user_of(
    found: Annotated[HTTPAuthorizationCredentials, Depends(HTTPBearer())],
) -> str:
    if found.credentials != "anna":
        raise HTTPException(401, "who are you?")
    return found.credentials


User = Annotated[str, Depends(user_of)]


async def probe(
    app: Any, headers: dict[str, str], content: bytes = b"", path: str = "/render"
) -> tuple[Authorized | Rejected, Answer]:
    answer = Answer()
    scope = scope_of("POST", path, headers)
    return await FastApiAuthorizer(app).authorize(scope, body_of(content), answer.send), answer


async def test_installed_fastapi_is_supported() -> None:
    await check_fastapi()


async def test_unsupported_fastapi_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def handle(route: APIRoute, scope: Any, receive: Any, send: Any) -> None:
        await routing.request_response(route.get_route_handler())(scope, receive, send)

    monkeypatch.setattr(APIRoute, "handle", handle)
    with pytest.raises(ConfigurationError, match="does not support"):
        await check_fastapi()


async def test_nothing_of_fastapi_is_patched(ran: Ran) -> None:
    before = [dict(vars(each)) for each in (routing, APIRoute, APIRouter, FastAPI)]
    other, app = FastAPI(), FastAPI()
    for each in (app, other):

        @each.post("/render")
        async def render(user: User) -> None:
            ran.append(user)

    [route] = [each for each in other.routes if isinstance(each, APIRoute)]
    original = route.app
    verdict, _ = await probe(app, ANNA)
    assert verdict == Authorized()
    assert [dict(vars(each)) for each in (routing, APIRoute, APIRouter, FastAPI)] == before
    assert route.app is original


async def test_route_class_that_checks_the_caller_is_probed(ran: Ran) -> None:
    class CheckedRoute(APIRoute):
        def get_route_handler(self) -> Callable[[Request], Any]:
            handler = super().get_route_handler()

            async def check_caller(request: Request) -> Response:
                if request.headers.get("authorization") != "Bearer anna":
                    raise HTTPException(403, "not you")
                return await handler(request)

            return check_caller

    router = APIRouter(route_class=CheckedRoute)

    @router.post("/render")
    async def render(request: Request) -> None:
        ran.append("endpoint")

    app = FastAPI()
    app.include_router(router)
    assert (await probe(app, ANNA))[0] == Authorized()
    verdict, answer = await probe(app, {"Authorization": "Bearer bob"})
    assert (verdict, answer.status, ran) == (Rejected(), 403, [])


async def test_dependency_overrides_and_later_routes_are_probed(ran: Ran) -> None:
    app = FastAPI()
    authorizer = FastApiAuthorizer(app)

    @app.post("/render", dependencies=[Depends(user_of)])
    async def render() -> None:
        ran.append("endpoint")

    app.dependency_overrides[user_of] = lambda: "test user"
    scope = scope_of("POST", "/render")
    assert await authorizer.authorize(scope, body_of(), Answer().send) == Authorized()
    assert ran == []


async def test_satisfied_dependencies_authorize_without_running_the_endpoint(ran: Ran) -> None:
    app = FastAPI()

    @app.post("/render")
    async def render(user: User, order: Order) -> None:
        ran.append(user)

    verdict, answer = await probe(app, ANNA | JSON, b'{"pages": 3}')
    assert (verdict, answer.status, ran) == (Authorized(), 0, [])


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer bob"}, {"Cookie": "a=b"}])
async def test_rejected_caller_gets_the_apps_response(ran: Ran, headers: dict[str, str]) -> None:
    app = FastAPI()

    @app.post("/render")
    async def render(user: User, order: Order) -> None:
        ran.append(user)

    verdict, answer = await probe(app, headers | JSON, b'{"pages": 3}')
    assert (verdict, answer.status, ran) == (Rejected(), 401, [])
    assert answer.as_json()["detail"]


async def test_invalid_request_gets_the_apps_response() -> None:
    app = FastAPI()

    @app.post("/render")
    async def render(user: User, order: Order) -> None: ...

    for path, content, status in (
        ("/render", b'{"pages": "many"}', 422),
        ("/render", b"{", 422),
        ("/nowhere", b"{}", 404),
    ):
        verdict, answer = await probe(app, ANNA | JSON, content, path)
        assert (verdict, answer.status) == (Rejected(), status)


async def test_sync_and_streaming_endpoints_do_not_run(ran: Ran) -> None:
    app = FastAPI()

    @app.post("/plain")
    def plain(user: User) -> None:
        ran.append("plain")

    @app.post("/rows")
    async def rows(user: User) -> AsyncIterator[Order]:
        ran.append("rows")
        yield Order(pages=1)

    for path in ("/plain", "/rows"):
        verdict, _ = await probe(app, ANNA, path=path)
        assert verdict == Authorized()
    assert ran == []


async def test_router_dependencies_run_and_roll_back(ran: Ran) -> None:
    async def session() -> AsyncIterator[str]:
        try:
            yield "session"
            ran.append("commit")
        except Exception:
            ran.append("rollback")
            raise

    router = APIRouter(prefix="/v2", dependencies=[Depends(user_of)])

    @router.post("/render", dependencies=[Depends(session)])
    async def render() -> None:
        ran.append("endpoint")

    app = FastAPI()
    app.include_router(router, prefix="/api")
    verdict, _ = await probe(app, ANNA, path="/api/v2/render")
    assert (verdict, ran) == (Authorized(), ["rollback"])
    rejected, answer = await probe(app, {}, path="/api/v2/render")
    assert (rejected, answer.status) == (Rejected(), 401)


async def test_app_middleware_rejects_before_the_body_is_read() -> None:
    app = FastAPI()

    @app.middleware("http")
    async def guard(
        request: Request, call_next: Callable[[Request], Awaitable[Response]]
    ) -> Response:
        if request.headers.get("authorization") != "Bearer anna":
            return JSONResponse({"detail": "no"}, 401)
        return await call_next(request)

    @app.post("/render")
    async def render(request: Request, file: UploadFile) -> None: ...

    read: list[bytes] = []
    answer = Answer()
    authorizer = FastApiAuthorizer(GZipMiddleware(app))
    verdict = await authorizer.authorize(
        scope_of("POST", "/render"), body_of(b"x", read), answer.send
    )
    assert (verdict, answer.status, read) == (Rejected(), 401, [])


async def test_endpoint_without_caller_parameters_is_public(ran: Ran) -> None:
    app = FastAPI()

    @app.post("/render")
    async def render(order: Order, fast: bool = False) -> None:
        ran.append("endpoint")

    verdict, _ = await probe(app, JSON, b'{"pages": 3}')
    assert (verdict, ran) == (Authorized(), [])


def _endpoints_that_may_reject() -> list[Callable[..., Any]]:
    def by_request(request: Request) -> None: ...

    def by_header(x_key: Annotated[str | None, Header()] = None) -> None: ...

    def by_cookie(session: Annotated[str | None, Cookie()] = None) -> None: ...

    def by_optional(
        found: Annotated[Any, Depends(HTTPBearer(auto_error=False))],
    ) -> None: ...

    def by_unchecked_token(found: Annotated[Any, Depends(HTTPBearer())]) -> None: ...

    def by_unchecked_key(
        found: Annotated[str, Depends(APIKeyHeader(name="X-Key", auto_error=False))],
    ) -> None: ...

    def decorated() -> None: ...

    def requires_login(endpoint: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(endpoint)
        def wrapper(*arguments: Any, **named: Any) -> Any:
            raise HTTPException(401)

        return wrapper

    found: list[Callable[..., Any]] = [by_request, by_header, by_cookie, by_optional]
    return [*found, by_unchecked_token, by_unchecked_key, requires_login(decorated)]


@pytest.mark.parametrize("endpoint", _endpoints_that_may_reject(), ids=lambda each: each.__name__)
async def test_endpoint_that_may_check_the_caller_itself_is_not_guessed(
    endpoint: Callable[..., Any],
) -> None:
    app = FastAPI()
    app.post("/render")(endpoint)
    headers = {"Authorization": "Bearer made-up", "X-Key": "made-up", "Cookie": "session=made-up"}
    with pytest.raises(AuthorizationMissing, match="authorize="):
        await probe(app, headers)


def tenant_of(x_tenant: Annotated[str, Header()]) -> str:
    if x_tenant != "acme":
        raise HTTPException(403, "no such tenant")
    return x_tenant


async def test_header_that_is_no_credential_proves_nothing() -> None:
    app = FastAPI()

    @app.post("/render")
    async def render(
        tenant: Annotated[str, Depends(tenant_of)], found: Annotated[Any, Depends(HTTPBearer())]
    ) -> None:
        raise HTTPException(401, "checked here, and nowhere else")

    with pytest.raises(AuthorizationMissing, match="made-up credentials"):
        await probe(app, {"X-Tenant": "acme", "Authorization": "Bearer made-up"})


def token_or_key(
    authorization: Annotated[str | None, Header()] = None,
    x_key: Annotated[str | None, Header()] = None,
) -> str | None:
    if authorization is None and x_key is None:
        raise HTTPException(401, "neither")
    if authorization is not None and authorization != "Bearer anna":
        raise HTTPException(401, "who are you?")
    return x_key


async def test_proof_holds_for_one_credential_only() -> None:
    app = FastAPI()

    @app.post("/render")
    async def render(key: Annotated[str | None, Depends(token_or_key)]) -> None:
        raise HTTPException(401, "the key is checked here, and nowhere else")

    authorizer = FastApiAuthorizer(app)

    async def answer(headers: dict[str, str]) -> Authorized | Rejected:
        return await authorizer.authorize(
            scope_of("POST", "/render", headers), body_of(), Answer().send
        )

    assert await answer(ANNA) == Authorized()
    with pytest.raises(AuthorizationMissing):
        await answer({"X-Key": "made-up"})
    assert await answer({"X-Key": "made-up", "Authorization": "Bearer bob"}) == Rejected()
    assert await answer({}) == Rejected()
    assert await answer(ANNA) == Authorized()


async def test_redirect_proves_nothing() -> None:
    app = FastAPI()

    @app.middleware("http")
    async def only_https(
        request: Request, call_next: Callable[[Request], Awaitable[Response]]
    ) -> Response:
        if request.headers.get("x-forwarded-proto") != "https":
            return Response(status_code=307, headers={"Location": "https://app.example"})
        return await call_next(request)

    @app.post("/render")
    async def render(request: Request) -> None: ...

    with pytest.raises(AuthorizationMissing):
        await probe(app, {"X-Forwarded-Proto": "https", "Authorization": "Bearer made-up"})


async def test_other_routes_are_never_probed(ran: Ran) -> None:
    app = FastAPI()

    async def plain(request: Request) -> PlainTextResponse:
        ran.append("endpoint")
        return PlainTextResponse("done")

    app.add_route("/render", plain, methods=["POST"])
    app.mount("/old", Starlette())
    for path in ("/render", "/old/render"):
        with pytest.raises(AuthorizationMissing, match="is not a FastAPI route"):
            await probe(app, ANNA, path=path)
    assert ran == []


async def test_other_app_needs_a_hook() -> None:
    with pytest.raises(ConfigurationError, match="authorize=your_hook"):
        FastApiAuthorizer(Starlette())


async def test_ordinary_call_runs_the_endpoint(ran: Ran) -> None:
    app = FastAPI()

    @app.post("/render")
    async def render(user: User) -> str:
        ran.append(user)
        return "done"

    await probe(app, ANNA)
    answer = Answer()

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    await app(scope_of("POST", "/render", ANNA), receive, answer.send)
    assert (answer.as_json(), ran) == ("done", ["anna"])
