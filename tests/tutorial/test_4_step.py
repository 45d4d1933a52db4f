"""Step: a recorded step never runs again, whatever happens to the attempt."""

from __future__ import annotations

from coatcheck import App, Context
from coatcheck.testing import run_inline

app = App()
charged: list[str] = []


def charge(customer: str) -> str:
    charged.append(customer)
    return f"receipt for {customer}"


@app.job(retries=2)
async def bill(ctx: Context, customer: str) -> str:
    receipt: str = await ctx.step(charge, customer)
    if ctx.attempt == 1:
        raise ConnectionError("the mail server is down")
    return receipt


@app.job
async def bill_all(ctx: Context, customers: list[str]) -> list[str]:
    return [await ctx.step(charge, customer, key=customer) for customer in customers]


def test_a_retry_returns_the_recorded_result() -> None:
    charged.clear()

    run = run_inline(app, "bill", "ada")

    assert (run.result, run.attempts) == ("receipt for ada", 2)
    assert charged == ["ada"]


def test_a_key_tells_steps_of_one_function_apart() -> None:
    charged.clear()

    run = run_inline(app, "bill_all", ["ada", "bob"])

    assert [step.id.key for step in run.steps] == ["ada", "bob"]
    assert charged == ["ada", "bob"]
