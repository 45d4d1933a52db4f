"""Retry: an exception fails the attempt; the job is tried again with a backoff."""

from __future__ import annotations

from coatcheck import App, Context, Fail, Retry
from coatcheck.testing import run_inline

app = App()


@app.job(retries=2)
async def flaky(ctx: Context) -> str:
    if ctx.attempt < 3:
        raise ConnectionError("the service is down")
    return "done"


@app.job(retries=2)
async def ask_later(ctx: Context) -> str:
    if ctx.attempt == 1:
        raise Retry(after=60)
    return "done"


@app.job(retries=2)
async def impossible(ctx: Context) -> None:
    raise Fail("no-such-account", "there is no account 17")


def test_an_exception_is_retried() -> None:
    run = run_inline(app, "flaky")

    assert (run.state, run.result, run.attempts) == ("succeeded", "done", 3)


def test_retries_run_out() -> None:
    run = run_inline(app, "flaky", max_attempts=2)

    assert (run.state, run.attempts) == ("failed", 2)
    assert run.error is not None
    assert run.error.message == "ConnectionError: the service is down"


def test_a_handler_can_ask_for_a_later_retry() -> None:
    assert run_inline(app, "ask_later").attempts == 2


def test_a_handler_can_give_up_at_once() -> None:
    run = run_inline(app, "impossible")

    assert (run.state, run.attempts) == ("failed", 1)
    assert run.error is not None
    assert run.error.code == "no-such-account"
