"""An agent loop: a model decides, tools act, until the model has an answer.

    coatcheck serve examples/agent.py:app
    coatcheck submit research '"how long is the Danube?"' --wait

Every model turn and every tool call is a step, keyed by its turn. After a crash in turn 7 the job
continues with turn 7; turns 1 to 6 are read from the journal and not paid for again. The "model"
here is a local function; in production it is an API call.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from coatcheck import App, Context, Fail

app = App()

TURNS = 10


class Turn(BaseModel):
    """The model's next move: a tool call or an answer."""

    tool: str | None = None
    argument: str = ""
    answer: str | None = None


def ask_model(question: str, seen: list[str]) -> Turn:
    if not seen:
        return Turn(tool="search", argument=question)
    if len(seen) == 1:
        return Turn(tool="convert", argument="2850 km")
    return Turn(answer=f"{seen[-1]}, says {seen[0]}")


def search(words: str) -> str:
    return f"a page about {words}"


def convert(length: str) -> str:
    return f"{int(length.split(maxsplit=1)[0]) * 1000} m"


TOOLS: dict[str, Any] = {"search": search, "convert": convert}


@app.job(retries=10)
async def research(ctx: Context, question: str) -> str:
    seen: list[str] = []
    for number in range(TURNS):
        turn: Turn = await ctx.step(ask_model, question, seen, key=number, retries=3, timeout="2m")
        if turn.answer is not None:
            return turn.answer
        await ctx.emit({"tool": turn.tool, "argument": turn.argument})
        tool = TOOLS[turn.tool or ""]
        seen.append(await ctx.step(tool, turn.argument, key=number, retries=3))
        await ctx.progress(number + 1, TURNS, f"{turn.tool} {turn.argument}")
    raise Fail("no-answer", f"no answer within {TURNS} turns")
