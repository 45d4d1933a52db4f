"""Steps, waiting and child jobs inline: by the rules of the real thing, on a clock that jumps."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from pydantic import BaseModel

from coatcheck import App, Context
from coatcheck.errors import StepFailed
from coatcheck.testing import FakeClock, run_inline

app = App()
ran: Counter[str] = Counter()
keys: list[str] = []


@pytest.fixture(autouse=True)
def nothing_has_run_yet() -> None:
    ran.clear()
    keys.clear()


class Receipt(BaseModel):
    amount: int


async def extract(n: int) -> int:
    ran["extract"] += 1
    return n + 1


def charge(amount: int) -> Receipt:
    ran["charge"] += 1
    return Receipt(amount=amount)


@app.job
async def bill(ctx: Context, n: int) -> int:
    async def charged(amount: int) -> Receipt:
        keys.append(ctx.step_key)
        return charge(amount)

    await ctx.log("begun")
    extracted = await ctx.step(extract, n)
    receipt: Receipt = await ctx.step(charged, extracted)
    await ctx.emit({"paid": receipt.amount})
    return receipt.amount


@app.job
def bill_in_a_thread(ctx: Context, n: int) -> int:
    extracted = ctx.step(extract, n)
    receipt: Receipt = ctx.step(charge, extracted)
    ctx.emit({"paid": receipt.amount})
    return receipt.amount


@app.job(isolation="process")
async def bill_in_a_process(ctx: Context, n: int) -> int:
    receipt: Receipt = await ctx.step(charge, await ctx.step(extract, n))
    return receipt.amount


@pytest.mark.parametrize("kind", ["bill", "bill_in_a_thread", "bill_in_a_process"])
def test_every_shape_of_handler_takes_steps(kind: str) -> None:
    run = run_inline(app, kind, 1)
    assert (run.state, run.result, run.attempts, run.claims) == ("succeeded", 2, 1, 1)
    assert [step.result for step in run.steps] == ["2", '{"amount":2}']
    assert ran == {"extract": 1, "charge": 1}


@pytest.mark.parametrize("kind", ["bill", "bill_in_a_thread"])
def test_what_is_on_record_does_not_run_again(kind: str) -> None:
    calls = {"bill": 3, "bill_in_a_thread": 2}[kind]
    run = run_inline(app, kind, 1, crash={1: calls})
    assert (run.result, run.attempts, run.claims, run.crashes) == (2, 2, 2, 1)
    assert ran == {"extract": 1, "charge": 1}
    assert run.outputs == [{"paid": 2}]


@pytest.mark.parametrize("name", ["charged", "charged#0"])
def test_a_worker_can_die_between_a_body_and_its_record(name: str) -> None:
    run = run_inline(app, "bill", 1, crash={1: name})
    assert (run.result, run.attempts, run.crashes) == (2, 2, 1)
    assert ran == {"extract": 1, "charge": 2}
    assert keys == [f"{run.job_id}/charged#0"] * 2, "the same whenever it is tried"
    assert run.logs == [{"message": "begun"}], "said once, however often its handler was called"


def test_a_crash_that_nothing_comes_to_does_not_happen() -> None:
    run = run_inline(app, "bill", 1, crash={1: "charged#1", 2: 1})
    assert (run.state, run.crashes) == ("succeeded", 0)


@app.job
async def nap(ctx: Context) -> str:
    await ctx.step(extract, 1)
    await ctx.sleep("3d")
    await ctx.sleep(0.5)
    return "rested"


@app.job
def nap_in_a_thread(ctx: Context) -> str:
    ctx.step(extract, 1)
    ctx.sleep("3d")
    ctx.sleep(0.5)
    return "rested"


@pytest.mark.parametrize("kind", ["nap", "nap_in_a_thread"])
def test_sleep_lets_the_clock_jump_and_is_no_new_attempt(kind: str) -> None:
    clock = FakeClock(at=0)
    run = run_inline(app, kind, clock=clock)
    assert (run.state, run.result, run.attempts, run.claims) == ("succeeded", "rested", 1, 3)
    assert clock.now() == 3 * 86_400_000 + 500
    assert ran == {"extract": 1}


@pytest.mark.parametrize("kind", ["nap", "nap_in_a_thread"])
def test_a_wait_that_is_not_on_record_begins_again(kind: str) -> None:
    run = run_inline(app, kind, crash={1: 2, 2: 1})
    assert (run.state, run.attempts, run.claims, run.crashes) == ("succeeded", 3, 5, 2)
    assert ran == {"extract": 1}


@app.job
async def approve(ctx: Context) -> list[bool]:
    return [await ctx.wait_for("approved"), await ctx.wait_for("approved", timeout="1h")]


@app.job
def approve_in_a_thread(ctx: Context) -> str:
    try:
        return str(ctx.wait_for("approved", timeout="1h"))
    except TimeoutError as error:
        return str(error)


def test_events_come_in_the_order_they_were_sent() -> None:
    run = run_inline(app, "approve", events={"approved": [True, False]})
    assert (run.state, run.result, run.claims) == ("succeeded", [True, False], 1)


def test_a_job_that_waits_for_what_never_comes_is_left_waiting() -> None:
    run = run_inline(app, "approve", events={"refused": [True]})
    assert (run.state, run.reason, run.result, run.attempts) == ("waiting", "waiting", None, 1)


def test_a_timeout_lets_the_clock_jump() -> None:
    clock = FakeClock(at=0)
    run = run_inline(app, "approve_in_a_thread", clock=clock)
    assert (run.result, clock.now()) == ("no event 'approved' arrived in time", 3_600_000)
    late = run_inline(app, "approve", events={"approved": [True]}, max_attempts=1)
    assert late.error is not None
    assert (late.state, late.error.message) == (
        "failed",
        "TimeoutError: no event 'approved' arrived in time",
    )


@app.job
async def tree(ctx: Context, depth: int) -> int:
    if depth == 0:
        return 1
    await ctx.sleep(60)
    handles = [await ctx.spawn("tree", depth - 1) for _ in range(2)]
    return sum(await ctx.gather(*handles))


@app.job
async def many(ctx: Context, count: int) -> int:
    handles = [await ctx.spawn("leaf", n) for n in range(count)]
    return sum(await ctx.gather(*handles))


@app.job
def leaf(ctx: Context, n: int) -> int:
    return n


@app.job
async def parent_of_a_failure(ctx: Context) -> None:
    await ctx.gather(await ctx.spawn("flaky", 5))


@app.job
async def forgets_its_child(ctx: Context) -> None:
    await ctx.spawn("leaf", 3)


def test_children_run_inline_too() -> None:
    run = run_inline(app, "tree", 3)
    assert (run.state, run.result, run.attempts) == ("succeeded", 8, 1)
    assert [child.result for child in run.children] == [4, 4]
    assert [child.kind for child in run.children[0].children[1].children] == ["tree", "tree"]


def test_many_children_take_no_long_time() -> None:
    run = run_inline(app, "many", 500)
    assert (run.result, len(run.children), run.claims) == (sum(range(500)), 500, 2)


def test_a_child_is_spawned_once_whenever_its_parent_dies() -> None:
    run = run_inline(app, "many", 3, crash={1: 2, 2: "leaf#2", 3: 4}, max_attempts=4)
    assert (run.result, len(run.children), run.crashes) == (3, 3, 3)
    assert run_inline(app, "forgets_its_child").children[0].result == 3


def test_the_failure_of_a_child_is_that_of_its_parent() -> None:
    run = run_inline(app, "parent_of_a_failure")
    assert run.error is not None
    assert (run.state, run.error.code, run.attempts) == ("failed", "child-failed", 1)


@app.job(retries=0)
async def flaky(ctx: Context, failures: int) -> int:
    def fails() -> int:
        ran["fails"] += 1
        if ran["fails"] <= failures:
            raise OSError("the line is dead")
        return ran["fails"]

    return int(await ctx.step(fails, retries=2))


@app.job
async def falls_back(ctx: Context) -> str:
    def fails() -> int:
        ran["fails"] += 1
        raise OSError("the line is dead")

    try:
        await ctx.step(fails)
    except StepFailed as error:
        await ctx.step(extract, 1)
        return error.message
    return "never"


def test_a_step_is_tried_again_by_its_own_policy() -> None:
    clock = FakeClock(at=0)
    run = run_inline(app, "flaky", 2, clock=clock)
    assert (run.state, run.result, run.attempts) == ("succeeded", 3, 1)
    assert run.steps[0].attempts == 3
    assert clock.now() > 0
    ran.clear()
    assert run_inline(app, "flaky", 3).state == "failed"


def test_a_failure_that_the_handler_survived_is_part_of_its_history() -> None:
    run = run_inline(app, "falls_back", crash={1: 2})
    assert (run.result, run.crashes) == ("OSError: the line is dead", 1)
    assert ran == {"fails": 1, "extract": 1}


@app.job
async def side_by_side(ctx: Context) -> list[int]:
    steps = [ctx.step(extract, n, key=n) for n in range(4)]
    return list(await asyncio.gather(*steps, return_exceptions=True))


@pytest.mark.parametrize("call", [1, 2, 3, 4, "extract/2"])
def test_no_handler_outlives_its_worker(call: int | str) -> None:
    run = run_inline(app, "side_by_side", crash={1: call})
    assert (run.state, run.result, run.crashes) == ("succeeded", [1, 2, 3, 4], 1)
