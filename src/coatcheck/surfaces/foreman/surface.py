"""The surface itself: kinds, calls, words."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from coatcheck.app import App
from coatcheck.crypto.pepper import pepper_for
from coatcheck.http.errors import ErrorResponse
from coatcheck.http.surfaces.base import OptionalPart, Surface, SurfaceDisabled
from coatcheck.model.job import Job
from coatcheck.model.options import Limits, SurfaceOptions
from coatcheck.relay.credentials import CallEncryption
from coatcheck.relay.fork import forks_of
from coatcheck.relay.replay import answer_kept
from coatcheck.settings import Settings
from coatcheck.surfaces.foreman import errors
from coatcheck.surfaces.foreman.call import ModelCall
from coatcheck.surfaces.foreman.constants import KIND, SURFACE
from coatcheck.surfaces.foreman.handlers import ForemanHandlers
from coatcheck.surfaces.foreman.job import handler_with
from coatcheck.surfaces.foreman.models import queue_of
from coatcheck.surfaces.foreman.routes import PREFIXES, endpoints_for
from coatcheck.surfaces.foreman.settings import URL, ForemanSettings
from coatcheck.surfaces.foreman.targets import ModelTargets
from coatcheck.surfaces.foreman.webhooks import ForemanWebhookFormat

# Beyond the call itself: to find a target, to have the model loaded, to write the answer down.
SPARE_S = 60
# Who asks how we are is not kept waiting for a target that does not answer.
HEALTH_S = 1.0


class ForemanSurface(Surface):
    """A queue before Ollama: its own paths, the OpenAI ones, and `POST /jobs`."""

    name = SURFACE
    prefixes = PREFIXES
    shows_jobs = True

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self.settings = ForemanSettings.read(os.environ if environment is None else environment)
        self._targets = ModelTargets(self.settings)
        self._secrecy = CallEncryption()
        self._calls = ForemanHandlers(self.settings, self._targets, self._secrecy_now)
        self.endpoints = endpoints_for(self._calls)

    def configure(self, settings: Settings) -> None:
        """Take the pepper: an answer's cookies would be sealed under it. Ollama sets none, so it is
        not asked for before there are any.
        """
        self._secrecy = CallEncryption(pepper_for(settings).read_or_make)

    def _secrecy_now(self) -> CallEncryption:
        return self._secrecy

    def declare(self, app: App) -> None:
        """Declare the kind that asks models."""
        settings = self.settings
        app.job(
            KIND,
            retries=settings.max_attempts - 1,
            timeout=2 * settings.timeout_s + SPARE_S,
            queue=SURFACE,
            keep_succeeded=settings.job_ttl_s,
            keep_failed=settings.job_ttl_s,
            limits=Limits(concurrency=settings.seats, age_boosts=self._age_boosts),
            surface=SurfaceOptions(
                webhook_format=ForemanWebhookFormat(settings.webhook_secret, self._secrecy_now),
                fork_input=forks_of(ModelCall, self._secrecy_now, SURFACE),
            ),
        )(handler_with(settings, self._targets, self._secrecy_now))

    def _age_boosts(self) -> dict[str, int]:
        """Count jobs for loaded models as older, by a bounded time, so that no job starves."""
        boost_ms = round(self.settings.head_start_s * 1000)
        return {queue_of(model): boost_ms for model in self._targets.resident}

    def format_error(self, refusal: ErrorResponse, path: str) -> Response:
        """Write a refusal as Ollama does."""
        return errors.format_error(refusal, path)

    async def show_job(self, request: Request, job: Job) -> Response:
        """Show a job."""
        return await self._calls.show_job(request, job)

    async def result(self, request: Request, job: Job) -> Response | None:
        """Answer with the result of a job as the target answered it."""
        return await answer_kept(request.app.state.engine, request, job, self._secrecy)

    async def health(self) -> dict[str, Any]:
        """Say whether a target cannot be reached."""
        try:
            async with asyncio.timeout(HEALTH_S):
                await self._targets.look(urgent=True)
        except TimeoutError:
            return {"degraded": True}
        return {"degraded": self._targets.are_away}

    def optional_parts(self) -> Iterable[OptionalPart]:
        """List the targets, and how they are."""
        yield from asyncio.run(self._parts())

    async def _parts(self) -> list[OptionalPart]:
        found = []
        await self._targets.look()
        for target in self._targets:
            seen = target.seen
            if seen.reachable:
                models = len(seen.models or ())
                loaded = ", ".join(sorted(seen.resident)) or "none"
                found.append(
                    OptionalPart(f"Ollama at {target.name} has {models} models; loaded: {loaded}")
                )
            else:
                found.append(
                    OptionalPart(
                        f"Ollama at {target.name} cannot be reached: {seen.why}",
                        f"start it there (`ollama serve`), or set {URL}; jobs wait for it",
                    )
                )
        return found


def if_asked_for() -> ForemanSurface:
    """Return the surface where the environment says where Ollama is."""
    if not os.environ.get(URL, "").strip():
        raise SurfaceDisabled(f"set {URL} to have a queue before Ollama")
    return ForemanSurface()
