"""A FastAPI app is asked whether it lets a caller in, and its endpoint does not run."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Annotated, Any

import pytest
from fastapi import APIRouter, Cookie, Depends, FastAPI, Header, HTTPException, Request, UploadFile
from fastapi.dependencies import utils
from fastapi.security import APIKeyHeader, HTTPAuthorizationCredentials, HTTPBearer
from pydantic import BaseModel
from starlette.applications import Starlette
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import JSONResponse, PlainTextResponse, Response

from coatcheck.errors import ConfigurationError
from coatcheck.middleware.authorize import AuthorizationMissing, Authorized, Rejected
from coatcheck.middleware.fastapi_probe import FastApiAuthorizer, check

from .requests import Answer, body_of, scope_of

pytestmark = pytest.mark.anyio
ANNA = {"Authorization": "Bearer anna"}
JSON = {"Content-Type": "application/json"}


class Order(BaseModel):
    pages: int


class Ran(list[str]):
    """What ran of an app."""


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


async def ask(
    app: Any, headers: dict[str, str], content: bytes = b"", path: str = "/render"
) -> tuple[Authorized | Rejected, Answer]:
    answer = Answer()
    scope = scope_of("POST", path, headers)
    return await FastApiAuthorizer(app).ask(scope, body_of(content), answer.send), answer


async def test_this_fastapi_can_be_asked() -> None:
    await check()


async def test_a_fastapi_that_does_not_stop_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def solves_elsewhere(**named: Any) -> Any:
        return await utils.solve_dependencies(**named)

    solves_elsewhere.__stops_dry_calls__ = True  # type: ignore[attr-defined]
    monkeypatch.setattr("fastapi.routing.solve_dependencies", solves_elsewhere)
    with pytest.raises(ConfigurationError, match="cannot be asked by dry calls"):
        await check()


async def test_who_passes_the_dependencies_is_let_in_and_nothing_is_run(ran: Ran) -> None:
    app = FastAPI()

    @app.post("/render")
    async def render(user: User, order: Order) -> None:
        ran.append(user)

    said, answer = await ask(app, ANNA | JSON, b'{"pages": 3}')
    assert (said, answer.status, ran) == (Authorized(), 0, [])


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer bob"}, {"Cookie": "a=b"}])
async def test_who_does_not_gets_the_apps_own_answer(ran: Ran, headers: dict[str, str]) -> None:
    app = FastAPI()

    @app.post("/render")
    async def render(user: User, order: Order) -> None:
        ran.append(user)

    said, answer = await ask(app, headers | JSON, b'{"pages": 3}')
    assert (said, answer.status, ran) == (Rejected(), 401, [])
    assert answer.as_json()["detail"]


async def test_what_the_app_cannot_read_is_refused_at_once() -> None:
    app = FastAPI()

    @app.post("/render")
    async def render(user: User, order: Order) -> None: ...

    for path, content, status in (
        ("/render", b'{"pages": "many"}', 422),
        ("/render", b"{", 422),
        ("/nowhere", b"{}", 404),
    ):
        said, answer = await ask(app, ANNA | JSON, content, path)
        assert (said, answer.status) == (Rejected(), status)


async def test_a_plain_def_endpoint_and_a_streaming_one_do_not_run_either(ran: Ran) -> None:
    app = FastAPI()

    @app.post("/plain")
    def plain(user: User) -> None:
        ran.append("plain")

    @app.post("/rows")
    async def rows(user: User) -> AsyncIterator[Order]:
        ran.append("rows")
        yield Order(pages=1)

    for path in ("/plain", "/rows"):
        said, _ = await ask(app, ANNA, path=path)
        assert said == Authorized()
    assert ran == []


async def test_dependencies_of_a_router_count_and_roll_back(ran: Ran) -> None:
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
    said, _ = await ask(app, ANNA, path="/api/v2/render")
    assert (said, ran) == (Authorized(), ["rollback"])
    refused, answer = await ask(app, {}, path="/api/v2/render")
    assert (refused, answer.status) == (Rejected(), 401)


async def test_a_middleware_turns_strangers_away_before_any_body_is_read() -> None:
    app = FastAPI()

    @app.middleware("http")
    async def guard(request: Request, go_on: Callable[[Request], Awaitable[Response]]) -> Response:
        if request.headers.get("authorization") != "Bearer anna":
            return JSONResponse({"detail": "no"}, 401)
        return await go_on(request)

    @app.post("/render")
    async def render(request: Request, file: UploadFile) -> None: ...

    read: list[bytes] = []
    answer = Answer()
    asking = FastApiAuthorizer(GZipMiddleware(app))
    said = await asking.ask(scope_of("POST", "/render"), body_of(b"x", read), answer.send)
    assert (said, answer.status, read) == (Rejected(), 401, [])


async def test_an_endpoint_that_is_given_nothing_of_the_caller_is_open_to_all(ran: Ran) -> None:
    app = FastAPI()

    @app.post("/render")
    async def render(order: Order, fast: bool = False) -> None:
        ran.append("endpoint")

    said, _ = await ask(app, JSON, b'{"pages": 3}')
    assert (said, ran) == (Authorized(), [])


def _endpoints_that_might_refuse() -> list[Callable[..., Any]]:
    def by_request(request: Request) -> None: ...

    def by_header(x_key: Annotated[str | None, Header()] = None) -> None: ...

    def by_cookie(session: Annotated[str | None, Cookie()] = None) -> None: ...

    def by_optional(
        found: Annotated[Any, Depends(HTTPBearer(auto_error=False))],
    ) -> None: ...

    def by_token_not_looked_at(found: Annotated[Any, Depends(HTTPBearer())]) -> None: ...

    def by_key_not_looked_at(
        found: Annotated[str, Depends(APIKeyHeader(name="X-Key", auto_error=False))],
    ) -> None: ...

    def decorated() -> None: ...

    def requires_login(endpoint: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(endpoint)
        def wrapper(*arguments: Any, **named: Any) -> Any:
            raise HTTPException(401)

        return wrapper

    found: list[Callable[..., Any]] = [by_request, by_header, by_cookie, by_optional]
    return [*found, by_token_not_looked_at, by_key_not_looked_at, requires_login(decorated)]


@pytest.mark.parametrize("endpoint", _endpoints_that_might_refuse(), ids=lambda each: each.__name__)
async def test_one_that_might_refuse_in_its_body_is_never_guessed(
    endpoint: Callable[..., Any],
) -> None:
    app = FastAPI()
    app.post("/render")(endpoint)
    headers = {"Authorization": "Bearer made-up", "X-Key": "made-up", "Cookie": "session=made-up"}
    with pytest.raises(AuthorizationMissing, match="authorize="):
        await ask(app, headers)


def tenant_of(x_tenant: Annotated[str, Header()]) -> str:
    if x_tenant != "acme":
        raise HTTPException(403, "no such tenant")
    return x_tenant


async def test_what_is_no_credential_proves_nothing() -> None:
    app = FastAPI()

    @app.post("/render")
    async def render(
        tenant: Annotated[str, Depends(tenant_of)], found: Annotated[Any, Depends(HTTPBearer())]
    ) -> None:
        raise HTTPException(401, "looked at here, and nowhere else")

    with pytest.raises(AuthorizationMissing, match="made-up credentials"):
        await ask(app, {"X-Tenant": "acme", "Authorization": "Bearer made-up"})


def token_or_key(
    authorization: Annotated[str | None, Header()] = None,
    x_key: Annotated[str | None, Header()] = None,
) -> str | None:
    if authorization is None and x_key is None:
        raise HTTPException(401, "neither")
    if authorization is not None and authorization != "Bearer anna":
        raise HTTPException(401, "who are you?")
    return x_key


async def test_what_was_proved_of_one_credential_holds_for_no_other() -> None:
    app = FastAPI()

    @app.post("/render")
    async def render(key: Annotated[str | None, Depends(token_or_key)]) -> None:
        raise HTTPException(401, "the key is looked at here, and nowhere else")

    asking = FastApiAuthorizer(app)

    async def answer(headers: dict[str, str]) -> Authorized | Rejected:
        return await asking.ask(scope_of("POST", "/render", headers), body_of(), Answer().send)

    assert await answer(ANNA) == Authorized()
    with pytest.raises(AuthorizationMissing):
        await answer({"X-Key": "made-up"})
    assert await answer({"X-Key": "made-up", "Authorization": "Bearer bob"}) == Rejected()
    assert await answer({}) == Rejected()
    assert await answer(ANNA) == Authorized()


async def test_a_redirect_to_another_scheme_proves_nothing() -> None:
    app = FastAPI()

    @app.middleware("http")
    async def only_https(
        request: Request, go_on: Callable[[Request], Awaitable[Response]]
    ) -> Response:
        if request.headers.get("x-forwarded-proto") != "https":
            return Response(status_code=307, headers={"Location": "https://app.example"})
        return await go_on(request)

    @app.post("/render")
    async def render(request: Request) -> None: ...

    with pytest.raises(AuthorizationMissing):
        await ask(app, {"X-Forwarded-Proto": "https", "Authorization": "Bearer made-up"})


async def test_routes_that_are_not_fastapis_own_are_never_called(ran: Ran) -> None:
    app = FastAPI()

    async def plain(request: Request) -> PlainTextResponse:
        ran.append("endpoint")
        return PlainTextResponse("done")

    app.add_route("/render", plain, methods=["POST"])
    app.mount("/old", Starlette())
    for path in ("/render", "/old/render"):
        with pytest.raises(AuthorizationMissing, match="not one of FastAPI's own"):
            await ask(app, ANNA, path=path)
    assert ran == []


async def test_an_app_of_another_kind_needs_a_hook() -> None:
    with pytest.raises(ConfigurationError, match="authorize=your_hook"):
        FastApiAuthorizer(Starlette())


async def test_an_ordinary_call_is_not_stopped(ran: Ran) -> None:
    app = FastAPI()

    @app.post("/render")
    async def render(user: User) -> str:
        ran.append(user)
        return "done"

    await ask(app, ANNA)
    answer = Answer()

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    await app(scope_of("POST", "/render", ANNA), receive, answer.send)
    assert (answer.as_json(), ran) == ("done", ["anna"])
