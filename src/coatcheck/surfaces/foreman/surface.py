"""The foreman surface: its kind, its endpoints and its error format."""

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
from coatcheck.relay.credentials import CallEncryption, fork_input_for
from coatcheck.relay.replay import replay_response
from coatcheck.settings import Settings
from coatcheck.surfaces.foreman import errors
from coatcheck.surfaces.foreman.call import ModelCall, queue_of
from coatcheck.surfaces.foreman.constants import KIND, SURFACE
from coatcheck.surfaces.foreman.handlers import ForemanHandlers
from coatcheck.surfaces.foreman.job import build_handler
from coatcheck.surfaces.foreman.routes import PREFIXES, build_endpoints
from coatcheck.surfaces.foreman.settings import URL, ForemanSettings
from coatcheck.surfaces.foreman.targets import ModelTargets, TargetStatus
from coatcheck.surfaces.foreman.webhooks import ForemanWebhookFormat

# Time to find a target, load the model and store the response, beyond the call itself.
EXTRA_S = 60
# A health check does not wait longer than this for a target.
HEALTH_S = 1.0


class ForemanSurface(Surface):
    """A queue in front of Ollama: its own paths, the OpenAI ones, and `POST /jobs`."""

    name = SURFACE
    prefixes = PREFIXES
    shows_jobs = True

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self.settings = ForemanSettings.read(os.environ if environment is None else environment)
        self._targets = ModelTargets(self.settings)
        self._encryption = CallEncryption()
        self._handlers = ForemanHandlers(self.settings, self._targets, self._get_encryption)
        self.endpoints = build_endpoints(self._handlers)

    def configure(self, settings: Settings) -> None:
        """Configure the encryption of response cookies. Ollama sets none, so the pepper is not read
        before there is one.
        """
        self._encryption = CallEncryption(pepper_for(settings).read_or_make)

    def _get_encryption(self) -> CallEncryption:
        return self._encryption

    def declare(self, app: App) -> None:
        """Declare the kind of model calls."""
        settings = self.settings
        app.job(
            KIND,
            retries=settings.max_attempts - 1,
            timeout=2 * settings.timeout_s + EXTRA_S,
            queue=SURFACE,
            keep_succeeded=settings.job_ttl_s,
            keep_failed=settings.job_ttl_s,
            limits=Limits(concurrency=settings.slots, age_boosts=self._age_boosts),
            surface=SurfaceOptions(
                webhook_format=ForemanWebhookFormat(settings.webhook_secret, self._get_encryption),
                fork_input=fork_input_for(ModelCall, self._get_encryption, SURFACE),
            ),
        )(build_handler(settings, self._targets, self._get_encryption))

    def _age_boosts(self) -> dict[str, int]:
        """Count jobs of loaded models as older, by a bounded time, so that no job starves."""
        boost_ms = round(self.settings.head_start_s * 1000)
        return {queue_of(model): boost_ms for model in self._targets.resident}

    def format_error(self, error: ErrorResponse, path: str) -> Response:
        """Write an error in Ollama's format."""
        return errors.format_error(error, path)

    async def show_job(self, request: Request, job: Job) -> Response:
        """Return a job."""
        return await self._handlers.show_job(request, job)

    async def result(self, request: Request, job: Job) -> Response | None:
        """Replay the target's response."""
        return await replay_response(request.app.state.engine, request, job, self._encryption)

    async def health(self) -> dict[str, Any]:
        """Return whether a target cannot be reached."""
        try:
            async with asyncio.timeout(HEALTH_S):
                await self._targets.check_all(urgent=True)
        except TimeoutError:
            return {"degraded": True}
        return {"degraded": self._targets.is_degraded}

    def optional_parts(self) -> Iterable[OptionalPart]:
        """List the targets and their status."""
        yield from asyncio.run(self._optional_parts())

    async def _optional_parts(self) -> list[OptionalPart]:
        await self._targets.check_all()
        return [_describe_target(target.name, target.status) for target in self._targets]


def _describe_target(name: str, status: TargetStatus) -> OptionalPart:
    if status.reachable:
        models = len(status.models or ())
        loaded = ", ".join(sorted(status.resident)) or "none"
        return OptionalPart(f"Ollama at {name} has {models} models; loaded: {loaded}")
    return OptionalPart(
        f"Ollama at {name} cannot be reached: {status.why}",
        f"start it there (`ollama serve`), or set {URL}; jobs wait for it",
    )


def create_if_configured() -> ForemanSurface:
    """Return the surface; raises SurfaceDisabled if the environment has no Ollama address."""
    if not os.environ.get(URL, "").strip():
        raise SurfaceDisabled(f"set {URL} to enable the queue in front of Ollama")
    return ForemanSurface()


# The entry point's name in the metadata of earlier installations.
if_asked_for = create_if_configured
