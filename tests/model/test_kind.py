from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel, TypeAdapter
from pydantic_core import PydanticSerializationError

from coatcheck.errors import InvalidPayload
from coatcheck.model.kind import Backoff, Kind


class Letter(BaseModel):
    to: str
    pages: list[int] = []


@dataclass
class Receipt:
    number: int


def kind(input_type: Any = Letter, result_type: Any = Receipt) -> Kind:
    return Kind(
        name="mail",
        handler=print,
        takes_input=True,
        isolation="thread",
        input_type=TypeAdapter(input_type),
        result_type=TypeAdapter(result_type),
    )


def test_an_input_becomes_what_the_handler_takes() -> None:
    assert kind().read_input('{"to":"ada","pages":[1,2]}') == Letter(to="ada", pages=[1, 2])
    assert kind().read_input(b'{"to":"ada"}') == Letter(to="ada")
    assert kind(int).read_input("5") == 5
    kind().check_input('{"to":"ada"}')


def test_an_input_that_does_not_fit_says_where() -> None:
    with pytest.raises(InvalidPayload, match="does not fit kind 'mail': /to: Field required"):
        kind().check_input("{}")
    with pytest.raises(InvalidPayload) as caught:
        kind().check_input('{"to":1,"pages":[1,"x"]}')
    assert [pointer for pointer, _ in caught.value.problems] == ["/to", "/pages/1"]


def test_every_problem_is_told_and_the_sentence_stays_short() -> None:
    with pytest.raises(InvalidPayload) as caught:
        kind(list[int]).check_input('["a","b","c","d","e"]')
    assert len(caught.value.problems) == 5
    assert "/3" not in str(caught.value)


def test_where_is_a_json_pointer() -> None:
    with pytest.raises(InvalidPayload) as caught:
        kind(dict[str, int]).check_input('{"a/b~c":"x"}')
    assert [pointer for pointer, _ in caught.value.problems] == ["/a~1b~0c"]


@pytest.mark.parametrize("text", ["", "{", "nope", '{"to":"a"} x', b"\xff"])
def test_what_is_not_json_is_refused(text: str | bytes) -> None:
    with pytest.raises(InvalidPayload):
        kind().check_input(text)


def test_a_refusal_does_not_repeat_the_input() -> None:
    with pytest.raises(InvalidPayload) as caught:
        kind(int).check_input('"my-secret"')
    assert "my-secret" not in str(caught.value)
    assert "my-secret" not in repr(caught.value.problems)


def test_a_result_is_written_as_json() -> None:
    assert kind().write_result(Receipt(7)) == '{"number":7}'
    assert kind(result_type=Any).write_result({"größe": [1, None]}) == '{"größe":[1,null]}'


@pytest.mark.parametrize("value", ["not a receipt", object()])
def test_a_result_of_another_type_is_an_error(value: object) -> None:
    with pytest.raises(PydanticSerializationError):
        kind().write_result(value)


def test_each_retry_waits_twice_as_long_up_to_a_limit() -> None:
    longest = [Backoff().delay(attempt, lambda: 1.0) for attempt in range(1, 12)]
    assert longest == [
        *(1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 128_000, 256_000),
        *(300_000, 300_000),
    ]
    assert Backoff().delay(10_000, lambda: 1.0) == 300_000


def test_retries_are_spread_over_half_of_the_wait() -> None:
    assert Backoff().delay(1, lambda: 0.0) == 500
    assert Backoff(first_ms=80, cap_ms=100).delay(2, lambda: 0.5) == 75
    assert len({Backoff().delay(5) for _ in range(50)}) > 1
    assert all(8_000 <= Backoff().delay(5) <= 16_000 for _ in range(50))
