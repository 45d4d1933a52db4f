"""A small language for handlers, so that a test can change a handler's code between attempts.

A `Script` declares a kind whose handler runs one line of the language per attempt. A line is a
sequence of words:

| word    | what the handler does                                                      |
|---------|----------------------------------------------------------------------------|
| `a`     | runs a step named `a`                                                      |
| `a/1`   | runs a step named `a` with the key `1`                                     |
| `a!`    | runs a step that fails; the failure ends the attempt                       |
| `a?`    | runs a step that fails, and catches the failure                            |
| `[a b]` | runs steps concurrently (in a thread: one after the other in another one)  |
| `(a b)` | runs steps one after the other in a task or thread of its own              |
| `{a}`   | raises Retry, and runs a step in the `finally`                             |
| `~a`    | waits for the event `a`                                                    |
| `+a`    | logs `a`                                                                   |
| `!`     | ends the attempt; the next one follows at once                             |

The handler returns the number of words in its line. `Script.ran` counts how often the function of
each step ran. For example, `Script(app, "kind", "on_loop", "a b !", "a c")` runs the steps `a` and
`b` in the first attempt, and has other code in the second.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from coatcheck import App, Context, Retry, StepFailed

SHAPES = ["on_loop", "in_thread"]


class Script:
    """Declares a kind, with an async or a def handler, and counts the steps that ran."""

    def __init__(self, app: App, kind: str, shape: str, *calls: str) -> None:
        self._calls = list(calls)
        self.ran: Counter[str] = Counter()

        async def on_loop(ctx: Context) -> int:
            words = self._next()
            for word in words:
                await self._on_loop(ctx, word)
            return len(words)

        def in_thread(ctx: Context) -> int:
            words = self._next()
            for word in words:
                self._in_thread(ctx, word)
            return len(words)

        app.job(name=kind)(on_loop if shape == "on_loop" else in_thread)

    def _next(self) -> list[str]:
        line = self._calls.pop(0) if len(self._calls) > 1 else self._calls[0]
        return re.findall(r"\[.*?\]|\(.*?\)|\{.*?\}|\S+", line)

    def _body(self, word: str) -> Callable[[], str]:
        name = word.rstrip("!?").split("/")[0]

        def body() -> str:
            self.ran[name] += 1
            if word.endswith(("!", "?")):
                raise OSError(name)
            return name

        body.__name__ = name
        return body

    def _step(self, ctx: Context, word: str) -> Any:
        _, _, key = word.rstrip("!?").partition("/")
        return ctx.step(self._body(word), key=key or None)

    async def _on_loop(self, ctx: Context, word: str) -> None:
        match word[0]:
            case "[":
                await asyncio.gather(*(self._step(ctx, each) for each in word[1:-1].split()))
            case "(":

                async def apart() -> None:
                    for each in word[1:-1].split():
                        await self._step(ctx, each)

                await asyncio.create_task(apart())
            case "{":
                try:
                    raise Retry(after=0)
                finally:
                    await self._step(ctx, word[1:-1])
            case "~":
                await ctx.wait_for(word[1:])
            case "+":
                await ctx.log(word[1:])
            case "!":
                raise Retry(after=0)
            case _:
                try:
                    await self._step(ctx, word)
                except StepFailed:
                    if word.endswith("!"):
                        raise

    def _in_thread(self, ctx: Context, word: str) -> None:
        match word[0]:
            case "[" | "(":
                with ThreadPoolExecutor(1) as apart:
                    for each in word[1:-1].split():
                        apart.submit(self._step, ctx, each).result()
            case "{":
                try:
                    raise Retry(after=0)
                finally:
                    self._step(ctx, word[1:-1])
            case "~":
                ctx.wait_for(word[1:])
            case "+":
                ctx.log(word[1:])
            case "!":
                raise Retry(after=0)
            case _:
                try:
                    self._step(ctx, word)
                except StepFailed:
                    if word.endswith("!"):
                        raise


# The line of the first attempt, the changed line, and the error that names the difference.
CHANGED = {
    "none-is-taken": ("a b !", "", "returned without reaching the recorded step 'a', step 'b'"),
    "not-all-are-taken": ("a b !", "a", "returned without reaching the recorded step 'b'"),
    "one-is-left-out": ("a b c !", "a c", "returned without reaching the recorded step 'b'"),
    "many-are-not-taken": ("a b c d e !", "", "step 'c' and 2 more"),
    "a-failure-that-was-survived": ("a? b !", "", "the recorded step 'a', step 'b'"),
    "another-key": (
        "a/1 !",
        "a/2",
        "recorded step 'a' with key '1' where the code",
    ),
    "after-some-side-by-side": (
        *("[a b] c d !", "[a b] c x"),
        "recorded step 'd' where the code now calls step 'x'",
    ),
    "before-some-side-by-side": (
        *("a [b c] !", "x [b c]"),
        "recorded step 'a' where the code now calls step 'x'",
    ),
    "after-some-of-which-one-is-left-out": (
        *("[a b] c d !", "[a] c x"),
        "recorded step 'd' where the code now calls step 'x'",
    ),
    "none-after-some-side-by-side": (
        "[a b] c !",
        "",
        "returned without reaching the recorded step 'c'",
    ),
    "after-a-task-of-its-own": ("(a b) c d !", "(a b) c x", "where the code now calls step 'x'"),
}

# Changes that are accepted, because unchanged code could produce them.
FINE = {
    "all-are-taken": ("a b !", "a b c"),
    "in-another-order": ("a b !", "b a c"),
    "a-step-that-failed-was-mended": ("a b!", "a x"),
    "one-side-by-side-is-not-needed-any-more": ("a [b c] !", "a [b] d"),
    "none-of-them-is": ("a [b c] !", "a d"),
    "a-task-of-its-own-does-something-else": ("a (b c) !", "a (d) e"),
    "an-error-was-dealt-with": ("a {b}", "a c"),
    "an-error-was-dealt-with-twice": ("a {b}", "a {b}", "a c"),
    "one-before-some-side-by-side": ("a [b c] d !", "a x [b c] d"),
}
