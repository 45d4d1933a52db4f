"""The requests to the cluster's API that the runner makes, and the meaning of its errors.

`lightkube` locates the cluster and authenticates: kubeconfig files, the service account of a pod,
rotating tokens, client certificates. The requests are made here, because its log reader yields
lines of text although a command writes bytes, and its watch has no timeout.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import Any, TypeVar

import httpx2
from lightkube.config import client_adapter
from lightkube.config.kubeconfig import KubeConfig, SingleConfig
from lightkube.config.models import User
from lightkube.core.exceptions import ConfigError

from coatcheck.errors import ConfigurationError
from coatcheck.surfaces.tasks.runners.kubernetes.manifest import CONTAINER, LABEL
from coatcheck.surfaces.tasks.runners.runner import (
    ClusterFull,
    ClusterRefused,
    ClusterUnreachable,
)

Document = dict[str, Any]
T = TypeVar("T")

_CALL = httpx2.Timeout(10.0, connect=5.0)
_STREAM = httpx2.Timeout(None, connect=5.0)


class ClusterBusy(Exception):
    """The API did not respond, or asked to retry later."""


class ObjectMissing(Exception):
    """The object does not exist."""


class ObjectExists(Exception):
    """The object exists already."""


class Cluster:
    """One namespace of a cluster, for the duration of one command."""

    def __init__(self, namespace: str, config: SingleConfig | None, patience_s: float) -> None:
        try:
            config = config or KubeConfig.from_env().get()
            if config is None:
                raise ConfigurationError("the kubeconfig has no current context")
            # A cluster behind a proxy may need no credentials.
            config = config._replace(user=config.user or User())
            self._http = client_adapter.AsyncClient(
                config, client_adapter.ConnectionParams(timeout=_CALL)
            )
        except (ConfigError, OSError) as error:
            raise ConfigurationError(f"no cluster is configured: {error}") from error
        self._jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
        self._pods = f"/api/v1/namespaces/{namespace}/pods"
        self._events = f"/api/v1/namespaces/{namespace}/events"
        self._patience_s = patience_s

    async def __aenter__(self) -> Cluster:
        return self

    async def __aexit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        await self._http.aclose()

    async def retry(self, call: Callable[[], Awaitable[T]]) -> T:
        """Retry a request while the API does not respond; finally raise ClusterUnreachable."""
        loop = asyncio.get_running_loop()
        until, pause = loop.time() + self._patience_s, 0.1
        while True:
            try:
                return await call()
            except ClusterBusy as error:
                if loop.time() + pause > until:
                    raise ClusterUnreachable(
                        f"the cluster's API has not responded for {self._patience_s:g} s: {error}"
                    ) from error
            await asyncio.sleep(pause)
            pause = min(pause * 2, 2.0)

    async def create_job(self, job: Document) -> Document:
        """Create a Job; raise ObjectExists if there is one of that name."""
        return await self._call("POST", self._jobs, json=job)

    async def job(self, name: str) -> Document:
        """Return a Job; raise ObjectMissing if it does not exist."""
        return await self._call("GET", f"{self._jobs}/{name}")

    async def delete_job(self, name: str) -> None:
        """Delete a Job and its pods, if it exists; the Job goes after its pods."""
        with suppress(ObjectMissing):
            await self._call(
                "DELETE", f"{self._jobs}/{name}", params={"propagationPolicy": "Foreground"}
            )

    async def pods(self, name: str) -> tuple[list[Document], str]:
        """Return the pods of a Job, the newest last, and the version of the list."""
        found = await self._call("GET", self._pods, params=_selector(name))
        pods = sorted(found.get("items", []), key=lambda pod: _metadata(pod, "creationTimestamp"))
        return pods, _metadata(found, "resourceVersion")

    async def creation_errors(self, name: str) -> list[str]:
        """Return why the pods of a Job could not be created, from the cluster's events."""
        selector = f"involvedObject.kind=Job,involvedObject.name={name},reason=FailedCreate"
        found = await self._call("GET", self._events, params={"fieldSelector": selector})
        return [event.get("message", "") for event in found.get("items", [])]

    async def wait_for_change(self, name: str, version: str, seconds: float) -> None:
        """Wait until a Job's pods change after a version, or for some seconds.

        Also returns if the watch breaks, is rejected or ends: the caller reads the pods anyway.
        """
        params = _selector(name) | {
            "watch": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(max(1, round(seconds))),
        }
        try:
            async with asyncio.timeout(seconds), self._stream(self._pods, params) as response:
                async for line in response.aiter_lines():
                    if line and json.loads(line).get("type") != "BOOKMARK":
                        return
        except TimeoutError:
            return
        except (ClusterBusy, ObjectMissing, ClusterRefused, ValueError):
            pass
        # The watch ended without a change: pause, in case the API does so every time.
        await asyncio.sleep(min(seconds, 0.2))

    @asynccontextmanager
    async def log(self, pod: str, limit: int) -> AsyncGenerator[AsyncGenerator[bytes]]:
        """Open the log of a pod's container from the start, followed until it ends."""
        params = {"container": CONTAINER, "follow": "true", "limitBytes": str(limit)}
        async with self._stream(f"{self._pods}/{pod}/log", params) as response:
            yield _bytes(response)

    async def _call(self, method: str, path: str, **request: Any) -> Document:
        try:
            response = await self._http.request(method, path, **request)
        except httpx2.RequestError as error:
            raise ClusterBusy(type(error).__name__) from error
        except ConfigError as error:
            raise ClusterRefused(f"this server has no valid credentials: {error}") from error
        _raise_for(response)
        try:
            document: Document = response.json()
        except ValueError as error:
            raise ClusterBusy("the response is not JSON") from error
        return document

    @asynccontextmanager
    async def _stream(self, path: str, params: dict[str, str]) -> AsyncGenerator[httpx2.Response]:
        try:
            async with self._http.stream("GET", path, params=params, timeout=_STREAM) as response:
                if response.is_error:
                    await response.aread()
                    _raise_for(response)
                yield response
        except httpx2.RequestError as error:
            raise ClusterBusy(type(error).__name__) from error


async def _bytes(response: httpx2.Response) -> AsyncGenerator[bytes]:
    async for piece in response.aiter_bytes():
        yield piece


def _selector(name: str) -> dict[str, str]:
    return {"labelSelector": f"{LABEL}={name}"}


def _metadata(document: Document, field: str) -> str:
    return str(document.get("metadata", {}).get(field) or "")


def _raise_for(response: httpx2.Response) -> None:
    code = response.status_code
    if code < 400:
        return
    try:
        message = str(response.json()["message"])
    except (ValueError, KeyError, TypeError):
        message = f"status {code}"
    if code >= 500 or code == 429:
        raise ClusterBusy(message)
    if code == 404 and "namespaces" not in message:
        raise ObjectMissing(message)
    if code == 409:
        raise ObjectExists(message)
    if code == 403 and "exceeded quota" in message:
        raise ClusterFull(f"the cluster's quota is used up: {message}")
    raise ClusterRefused(f"the cluster rejects the request: {message}")
