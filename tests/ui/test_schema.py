"""What the cockpit makes of a schema is what the kind itself takes, or nothing."""

from __future__ import annotations

import datetime
import json
import subprocess
from typing import Annotated, Any, Literal

from annotated_types import Len
from pydantic import BaseModel, Field, StringConstraints, TypeAdapter

from coatcheck.surfaces.installed import app_of_surfaces
from tests.node import node

from . import app as tested
from .conftest import ROOT

MODULE = ROOT / "src/coatcheck/ui/static/schema.js"
PROGRAM = """
const { example } = await import(process.argv[1]);
const schemas = JSON.parse(await new Response(process.stdin).text());
console.log(JSON.stringify(schemas.map((schema) => {
  const value = example(schema);
  return value === undefined ? [] : [value];
})));
"""


def examples_of(*schemas: dict[str, Any]) -> list[list[Any]]:
    """Return an example for each schema, in a list; an empty one where there is none."""
    command = [node(), "--input-type=module", "--eval", PROGRAM, MODULE.as_uri()]
    asked = json.dumps(schemas)
    done = subprocess.run(command, input=asked, capture_output=True, text=True, check=True)
    return [list(each) for each in json.loads(done.stdout)]


class Address(BaseModel):
    street: Annotated[str, StringConstraints(min_length=7, max_length=9)]
    number: Annotated[int, Field(gt=5, multiple_of=4)]


class Customer(BaseModel):
    name: str
    at: Address
    others: Annotated[list[Address], Len(2)]
    since: datetime.date
    kind: Literal["new", "old"]
    pair: tuple[int, str]
    weight: Annotated[float, Field(lt=0)]
    note: str | None
    nick: str = "none"


class Tree(BaseModel):
    below: list[Tree]


FITTING: list[Any] = [
    *(Customer, Tree, str, int, float, bool, None, Any, datetime.datetime),
    *(int | str, list[int], dict[str, int], Annotated[str, StringConstraints(max_length=2)]),
    Annotated[str, Field(pattern="^c")],
    Annotated[str, Field(pattern=r"^\d+$", examples=["7"])],
]
# Here it would be guessing.
UNTOLD: list[Any] = [
    Annotated[str, StringConstraints(pattern=r"^\d{4}-\d{2}$")],
    Annotated[set[int], Len(2)],
    Annotated[dict[str, int], Len(1)],
    Annotated[int, Field(gt=3, lt=4)],
]


def test_an_example_fits() -> None:
    adapters: list[TypeAdapter[Any]] = [TypeAdapter(each) for each in FITTING]
    found = examples_of(*(adapter.json_schema() for adapter in adapters))
    for adapter, example in zip(adapters, found, strict=True):
        assert example, adapter
        adapter.validate_json(json.dumps(example[0]))


def test_where_it_would_be_guessing_there_is_none() -> None:
    adapters: list[TypeAdapter[Any]] = [TypeAdapter(each) for each in UNTOLD]
    assert examples_of(*(adapter.json_schema() for adapter in adapters)) == [[]] * len(UNTOLD)


def test_the_examples_of_our_own_kinds_are_taken() -> None:
    kinds = [*app_of_surfaces([]).kinds.values(), *tested.app.kinds.values()]
    found = examples_of(*(kind.input_schema() for kind in kinds))
    with_one = set()
    for kind, example in zip(kinds, found, strict=True):
        if example:
            kind.check_input(json.dumps(example[0]))
            with_one.add(kind.name)
    assert {"ingest.document", "order", "render"} <= with_one
