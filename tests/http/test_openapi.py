"""`/openapi.json`: valid OpenAPI 3.1, made from the table of calls and the declared kinds."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator
from pydantic import BaseModel, computed_field
from starlette.applications import Starlette

from coatcheck import App, Context
from coatcheck.engine.engine import Engine
from coatcheck.http.app import create_http_app
from coatcheck.http.routes import ENDPOINTS
from coatcheck.store.sqlite.store import SQLiteStore
from tests.http.arrange import connect
from tests.http.interesting import interesting_app

pytestmark = pytest.mark.anyio


async def describe(store: SQLiteStore, app: App) -> dict[str, Any]:
    async with connect(create_http_app(Engine(store, app.kinds))) as http:
        answer = await http.get("/openapi.json")
    assert answer.status_code == 200
    return dict(answer.json())


@pytest.mark.parametrize("app", [App(), interesting_app()], ids=["no kinds", "many kinds"])
async def test_it_is_valid(store: SQLiteStore, app: App) -> None:
    described = await describe(store, app)

    assert described["openapi"] == "3.1.0"
    assert list(OpenAPIV31SpecValidator(described).iter_errors()) == []


async def test_it_has_every_call_and_every_route_is_a_call(
    http: httpx2.AsyncClient, app: Starlette
) -> None:
    described = (await http.get("/openapi.json")).json()

    calls = {(path, method) for path, found in described["paths"].items() for method in found}
    table = {(one.path, one.method.lower()) for one in ENDPOINTS if not one.hidden}
    assert calls == table
    assert {getattr(route, "path", None) for route in app.routes} == {one.path for one in ENDPOINTS}


async def test_every_reference_leads_somewhere(store: SQLiteStore) -> None:
    described = await describe(store, interesting_app())

    names = set(described["components"]["schemas"])
    used = {text.split('"')[0] for text in json.dumps(described).split("#/components/schemas/")[1:]}
    assert used <= names
    assert {"parcels-.send.job", "area.job", "nothing.job"} <= used


async def test_a_job_of_each_kind_is_described_with_its_own_input(store: SQLiteStore) -> None:
    schemas = (await describe(store, interesting_app()))["components"]["schemas"]

    assert schemas["parcels-.send.job"]["properties"]["kind"] == {"const": "parcels:send"}
    assert schemas["parcels-.send.job"]["required"] == ["kind", "input"]
    assert schemas["nothing.job"]["required"] == ["kind"]
    assert schemas["days.job"]["required"] == ["kind"], "null is one of the things it takes"
    assert schemas["JobRequest"]["anyOf"] == [
        {"$ref": f"#/components/schemas/{name}.job"}
        for name in (
            "anything",
            "area",
            "days",
            "nothing",
            "parcels-.send",
            "refuse",
            "steps",
            "wait_for_it",
        )
    ]


class Note(BaseModel):
    text: str

    @computed_field
    def length(self) -> int:
        return len(self.text)


async def test_a_model_that_goes_in_and_comes_out_is_described_both_ways(
    store: SQLiteStore,
) -> None:
    app = App()

    @app.job
    async def bind(ctx: Context, notes: list[Note]) -> list[Note]:
        return notes

    schemas = (await describe(store, app))["components"]["schemas"]

    assert schemas["bind.input.Note"]["required"] == ["text"]
    assert schemas["bind.result.Note"]["required"] == ["text", "length"]


async def test_kinds_whose_names_look_alike_are_kept_apart(store: SQLiteStore) -> None:
    app = App()
    names = ("a:b", "a_b", "a-b", "a-.b", "a.b", "a--b", "a:.b")
    for name in names:

        @app.job(name)
        async def handler(ctx: Context) -> None: ...

    schemas = (await describe(store, app))["components"]["schemas"]

    described = [
        of["properties"]["kind"]["const"]
        for of in schemas.values()
        if of.get("title") and of["title"].endswith(" job")
    ]
    assert sorted(described) == sorted(names)


async def test_every_refusal_is_a_problem(http: httpx2.AsyncClient) -> None:
    described = (await http.get("/openapi.json")).json()

    for calls in described["paths"].values():
        for call in calls.values():
            for status, answer in call["responses"].items():
                if int(status) >= 400:
                    assert set(answer["content"]) == {"application/problem+json"}
            assert {"400", "403", "406", "503"} <= set(call["responses"])
