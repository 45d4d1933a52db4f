"""A refund that a person must approve if it is large.

    coatcheck serve examples/approval.py:app
    coatcheck submit refund '{"order": "A-17", "cents": 120000}'
    coatcheck jobs explain ID                           # waits for event 'decision' ...
    coatcheck jobs send ID decision '{"approved": true, "by": "ada"}'

A waiting job uses no slot and no memory, and survives a restart.
"""

from __future__ import annotations

from pydantic import BaseModel

from coatcheck import App, Context

app = App()

SMALL = 10_000


class Refund(BaseModel):
    order: str
    cents: int


class Decision(BaseModel):
    approved: bool
    by: str


def ask_for_approval(job_id: str, refund: Refund) -> None:
    print(f"refund of {refund.cents} cents for {refund.order}: approve job {job_id}")


def pay(ctx: Context, refund: Refund) -> str:
    # The bank accepts one payment for each key, so a repeated call does no harm.
    return f"paid {refund.cents} under {ctx.step_key}"


@app.job
def refund(ctx: Context, request: Refund) -> str:
    if request.cents > SMALL:
        ctx.step(ask_for_approval, ctx.job_id, request)
        try:
            decision = Decision.model_validate(ctx.wait_for("decision", timeout="7d"))
        except TimeoutError:
            return "nobody decided within a week"
        if not decision.approved:
            return f"rejected by {decision.by}"
    receipt: str = ctx.step(pay, ctx, request)
    return receipt
