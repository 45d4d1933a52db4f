"""The tasks surface: its kind, endpoints and errors."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from http import HTTPStatus

from starlette.responses import JSONResponse, Response

from coatcheck.app import App
from coatcheck.clock import SystemClock, to_rfc3339
from coatcheck.engine.engine import Engine
from coatcheck.http.errors import ErrorResponse
from coatcheck.http.surfaces.base import Surface
from coatcheck.logs import correlation_id
from coatcheck.sandbox import SandboxBackend, SandboxLimits, detect_sandbox, reject_exposed_files
from coatcheck.settings import Settings
from coatcheck.surfaces.tasks.constants import KIND, QUEUE
from coatcheck.surfaces.tasks.execution import make_handler
from coatcheck.surfaces.tasks.handlers import SURFACE, TaskHandlers
from coatcheck.surfaces.tasks.routes import endpoints_for
from coatcheck.surfaces.tasks.runners import CommandPolicy, CommandRunner, LocalRunner
from coatcheck.surfaces.tasks.runners.scratch_folder import remove_leftovers
from coatcheck.surfaces.tasks.settings import TaskSettings

# Beyond the command's own time limit: to start it, to end it, to record it.
OVERHEAD_S = 60
# In a cluster, a command that could not start or was evicted is retried.
CLUSTER_ATTEMPTS = 4


class TaskSurface(Surface):
    """Commands over HTTP: tasks at `/api/tasks`, and their executions."""

    name = SURFACE
    prefixes = ("/api/tasks", "/api/validation")

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self._environment = os.environ if environment is None else environment
        self.settings = TaskSettings.read(self._environment)
        is_local = self.settings.runner == "local"
        sandboxed = not is_local or detect_sandbox().backend is not SandboxBackend.RLIMITS
        self._policy = CommandPolicy(self.settings.policy_file, sandboxed=sandboxed)
        self.endpoints = endpoints_for(TaskHandlers(self.settings, self._policy))

    def declare(self, app: App) -> None:
        """Declare the kind that runs commands."""
        settings = self.settings
        is_local = settings.runner == "local"
        retention_s = settings.retention_hours * 3600
        app.job(
            KIND,
            retries=0 if is_local else CLUSTER_ATTEMPTS - 1,
            timeout=max(settings.sync_seconds, settings.async_seconds) + OVERHEAD_S,
            on_lost="fail" if is_local else "requeue",
            queue=QUEUE,
            keep_succeeded=retention_s,
            keep_failed=retention_s,
        )(make_handler(self._runner, self._policy, remote=not is_local))

    def configure(self, settings: Settings) -> None:
        """Raise if commands could read the server's own files."""
        if self.settings.runner == "local":
            reject_exposed_files(settings)

    def _runner(self) -> CommandRunner:
        if self.settings.runner == "local":
            return LocalRunner(limits=SandboxLimits(seconds=self.settings.async_seconds))
        from coatcheck.surfaces.tasks.runners.kubernetes import (  # noqa: PLC0415 - optional
            KubernetesRunner,
            KubernetesSettings,
        )

        return KubernetesRunner(KubernetesSettings.read(self._environment))

    async def sweep(self, engine: Engine) -> None:  # noqa: ARG002
        """Delete scratch folders of killed workers."""
        if self.settings.runner == "local":
            await asyncio.to_thread(remove_leftovers)

    def format_error(self, refusal: ErrorResponse, path: str) -> Response:
        """Serialize an error in the surface's format; invalid input becomes 400, and 410 becomes
        404.
        """
        status = {422: 400, 410: 404}.get(refusal.status, refusal.status)
        body = {
            "timestamp": to_rfc3339(SystemClock().now()),
            "status": status,
            "error": HTTPStatus(status).phrase,
            "message": refusal.detail,
            "path": path,
            "correlationId": correlation_id.get(),
        }
        return JSONResponse(body, status, refusal.headers)
