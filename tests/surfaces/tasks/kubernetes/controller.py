"""The controllers of the fake cluster: the Job controller, the scheduler, one kubelet.

Containers are real processes of this machine, with the command, the environment and the merged
output of a container; images and security contexts are only checked.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import signal
import tempfile
from asyncio.subprocess import PIPE, STDOUT, Process
from pathlib import Path
from typing import Any

from tests.surfaces.tasks.kubernetes.objects import Document, Objects, now

_IMAGE = re.compile(r"[a-z0-9][a-z0-9._/:@-]*")
_NODE_MEMORY_GI = 64


class Container:
    """One container: a process and its log."""

    def __init__(self) -> None:
        self.log = bytearray()
        self.ended = False
        self.process: Process | None = None
        self.folder = Path(tempfile.mkdtemp(prefix="fake-pod-"))

    async def start(self, spec: Document) -> None:
        environment = {one["name"]: one["value"] for one in spec["env"]}
        environment = {name: _expand(text, environment) for name, text in environment.items()}
        self.process = await asyncio.create_subprocess_exec(
            *(_expand(part, environment) for part in spec["command"]),
            env={"PATH": os.defpath, **environment},
            cwd=self.folder,
            stdout=PIPE,
            stderr=STDOUT,
            start_new_session=True,
        )

    async def run(self, notify: Any) -> int:
        assert self.process is not None
        assert self.process.stdout is not None
        while data := await self.process.stdout.read(65536):
            self.log += data
            notify()
        code = await self.process.wait()
        return code if code >= 0 else 128 - code

    def signal(self, number: int) -> None:
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)

    async def close(self) -> None:
        self.signal(signal.SIGKILL)
        if self.process is not None:
            assert self.process.stdout is not None
            await self.process.stdout.read()
            await self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


class Controller:
    """Creates the pods of Jobs, runs them, and reports their status."""

    def __init__(self, objects: Objects) -> None:
        self.objects = objects
        self.containers: dict[str, Container] = {}
        self.quota: str | None = None  # the error when the Job controller creates a pod
        self.started = 0  # processes started in total
        self.capacity = asyncio.Event()  # cleared: no node has capacity for another pod
        self.capacity.set()
        self.frozen = False  # deadlines are not enforced, and the end of a Job is not reported
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def add(self, job: Document) -> None:
        self._tasks[job["metadata"]["name"]] = asyncio.create_task(self._control(job))

    async def close(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        for container in self.containers.values():
            await container.close()

    async def delete(self, job: Document) -> None:
        """Delete a Job in the foreground: its pods first."""
        name = job["metadata"]["name"]
        task = self._tasks.pop(name)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await self._delete_pods(name)
        self.objects.remove("jobs", name)

    async def evict(self, name: str) -> None:
        """Evict a Job's pod."""
        (pod,) = self._pods(name)
        container = self.containers[pod["metadata"]["name"]]
        # Its process may be ahead of its reported status.
        while pod["status"]["phase"] == "Pending":  # noqa: ASYNC110 - nobody says so
            await asyncio.sleep(0.01)
        pod["status"] |= {"phase": "Failed", "reason": "Evicted"}
        pod["status"]["message"] = "The node was low on resource: memory."
        pod["status"]["containerStatuses"] = []
        container.signal(signal.SIGKILL)
        self.objects.changed("pods", pod)

    async def delete_pod(self, name: str) -> None:
        """Act like `kubectl delete pod`."""
        await self._delete_pods(name)

    async def _control(self, job: Document) -> None:
        spec, status = job["spec"], job["status"]
        status["startTime"] = now()
        self.objects.changed("jobs", job)
        try:
            async with asyncio.timeout(None if self.frozen else spec["activeDeadlineSeconds"]):
                while True:
                    ended_well = await self._pod(job)
                    key = "succeeded" if ended_well else "failed"
                    status[key] = status.get(key, 0) + 1
                    if ended_well or status["failed"] > spec["backoffLimit"]:
                        break
            reason = "" if ended_well else "BackoffLimitExceeded"
        except TimeoutError:
            reason = "DeadlineExceeded"
            if self._pods(job["metadata"]["name"]):
                status["failed"] = status.get("failed", 0) + 1
            await self._delete_pods(job["metadata"]["name"])
        if self.frozen:
            await asyncio.Event().wait()
        kind = "Failed" if reason else "Complete"
        status["conditions"] = [{"type": kind, "status": "True", "reason": reason}]
        self.objects.changed("jobs", job)
        await asyncio.sleep(spec["ttlSecondsAfterFinished"])
        for pod in self._pods(job["metadata"]["name"]):
            self.objects.remove("pods", pod["metadata"]["name"])
        self.objects.remove("jobs", job["metadata"]["name"])

    async def _pod(self, job: Document) -> bool:
        """Create a pod and run it; return whether it succeeded."""
        name = job["metadata"]["name"]
        while self.quota is not None:
            self._add_event(name, self.quota)
            await asyncio.sleep(0.05)
        template = job["spec"]["template"]
        pod = self.objects.create(
            "pods",
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": f"{name}-{os.urandom(3).hex()[:5]}",
                    "labels": {**template["metadata"]["labels"], "job-name": name},
                },
                "spec": template["spec"],
                "status": {"phase": "Pending", "conditions": []},
            },
        )
        await asyncio.sleep(0)
        spec = pod["spec"]["containers"][0]
        if _gibibytes(spec["resources"]["requests"]["memory"]) > _NODE_MEMORY_GI:
            self._scheduled(pod, "False", "0/1 nodes are available: 1 Insufficient memory.")
            await asyncio.Event().wait()
        if not self.capacity.is_set():
            self._scheduled(pod, "False", "0/1 nodes are available: 1 Too many pods.")
            await self.capacity.wait()
        self._scheduled(pod, "True", "")
        await self._pull(pod, spec["image"])
        return await self._run(pod, spec)

    async def _pull(self, pod: Document, image: str) -> None:
        if not _IMAGE.fullmatch(image):
            self._state(
                pod, waiting={"reason": "InvalidImageName", "message": f"couldn't parse {image}"}
            )
            await asyncio.Event().wait()
        if ".invalid/" in image:
            self._state(
                pod, waiting={"reason": "ErrImagePull", "message": f"no such host: {image}"}
            )
            await asyncio.sleep(0.1)
            self._state(
                pod, waiting={"reason": "ImagePullBackOff", "message": f"Back-off: {image}"}
            )
            await asyncio.Event().wait()
        self._state(pod, waiting={"reason": "ContainerCreating"})

    async def _run(self, pod: Document, spec: Document) -> bool:
        container = self.containers[pod["metadata"]["name"]] = Container()
        try:
            await container.start(spec)
        except OSError as error:
            shown = {2: "executable file not found in $PATH", 13: "permission denied"}
            message = f'exec: "{spec["command"][0]}": {shown[error.errno or 2]}: unknown'
            container.ended = True
            self._end(pod, 128, "StartError", message)
            return False
        self.started += 1
        self._state(pod, running={"startedAt": now()})
        pod["status"]["phase"] = "Running"
        self.objects.changed("pods", pod)
        try:
            code = await container.run(self.objects.wake)
        finally:
            container.ended = True
            self.objects.wake()
        if pod["status"]["phase"] == "Failed":  # evicted
            return False
        self._end(pod, code, "Completed" if code == 0 else "Error", "")
        return code == 0

    def _end(self, pod: Document, code: int, reason: str, message: str) -> None:
        pod["status"]["phase"] = "Succeeded" if code == 0 else "Failed"
        terminated = {"exitCode": code, "reason": reason, "finishedAt": now()}
        self._state(pod, terminated=terminated | ({"message": message} if message else {}))

    async def _delete_pods(self, name: str) -> None:
        for pod in self._pods(name):
            pod["metadata"]["deletionTimestamp"] = now()
            self.objects.changed("pods", pod)
            container = self.containers.get(pod["metadata"]["name"])
            if container is not None and container.process is not None and not container.ended:
                container.signal(signal.SIGTERM)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(pod["spec"]["terminationGracePeriodSeconds"]):
                        await container.process.wait()
                container.signal(signal.SIGKILL)
                await container.process.wait()
                container.ended = True
                self._end(pod, 137, "Error", "")
            self.objects.remove("pods", pod["metadata"]["name"])

    def _pods(self, name: str) -> list[Document]:
        found = self.objects.list("pods", {"job-name": name})
        live = [self.objects.get("pods", one["metadata"]["name"]) for one in found]
        return [pod for pod in live if pod is not None]

    def _scheduled(self, pod: Document, status: str, message: str) -> None:
        reason = {"reason": "Unschedulable", "message": message} if message else {}
        pod["status"]["conditions"] = [{"type": "PodScheduled", "status": status, **reason}]
        self.objects.changed("pods", pod)

    def _state(self, pod: Document, **state: Document) -> None:
        one = {"name": pod["spec"]["containers"][0]["name"], "state": state, "restartCount": 0}
        pod["status"]["containerStatuses"] = [one]
        self.objects.changed("pods", pod)

    def _add_event(self, name: str, message: str) -> None:
        if self.objects.get("events", f"{name}.1") is None:
            self.objects.create(
                "events",
                {
                    "metadata": {"name": f"{name}.1"},
                    "involvedObject": {"kind": "Job", "name": name},
                    "reason": "FailedCreate",
                    "message": message,
                },
            )


def _expand(text: str, environment: dict[str, str]) -> str:
    """Expand `$(NAME)` as the kubelet does; `$$` is one dollar."""

    def value(found: re.Match[str]) -> str:
        return "$" if found[0] == "$$" else environment.get(found[1], found[0])

    return re.sub(r"\$\$|\$\(([^)]*)\)", value, text)


def _gibibytes(quantity: str) -> float:
    units = {"Ki": 2**-20, "Mi": 2**-10, "Gi": 1, "Ti": 2**10}
    return float(quantity[:-2]) * units[quantity[-2:]]
