"""Derive the status of a command from a Job and its pods."""

from __future__ import annotations

from dataclasses import dataclass

from coatcheck.surfaces.tasks.runners.kubernetes.cluster import Document
from coatcheck.surfaces.tasks.runners.runner import (
    TIMED_OUT,
    ClusterRefused,
    Evicted,
    ImageInvalid,
    ImageUnavailable,
    JobVanished,
    NotScheduled,
    RunnerError,
)

_NO_IMAGE = {
    "ErrImagePull",
    "ImagePullBackOff",
    "ErrImageNeverPull",
    "ImageInspectError",
    "RegistryUnavailable",
}
_NO_CONTAINER = {"CreateContainerConfigError", "CreateContainerError", "RunContainerError"}
# Why the cluster ends a pod that did nothing wrong.
_DISRUPTED = {
    "Evicted",
    "NodeLost",
    "NodeShutdown",
    "NodeAffinity",
    "Preempting",
    "Shutdown",
    "Terminated",
    "UnexpectedAdmissionError",
}
_CANNOT_START = {"StartError", "ContainerCannotRun"}


@dataclass(frozen=True)
class CommandEnded:
    """The end of a command."""

    exit_code: int
    message: str = ""  # by the cluster
    timed_out: bool = False


def has_started(pod: Document | None) -> bool:
    """Report whether the command of a pod runs, or has run."""
    state = _state(pod or {})
    return "running" in state or "terminated" in state


def read(
    job: Document | None, pod: Document | None, *, deleted: bool, retried: bool
) -> CommandEnded | None:
    """Return how the command ended; None if it has not. Raise RunnerError if it could not run.

    `pod` is the newest pod that exists or existed, `deleted` whether it is gone, `retried` whether
    the cluster starts another pod after a failure.
    """
    finished = _condition(job, "Complete") or _condition(job, "Failed")
    if finished is not None and finished.get("reason") == "DeadlineExceeded":
        # A Job that has counted no failed pod never had one.
        if not has_started(pod) and (pod is not None or not (job or {})["status"].get("failed")):
            raise not_started_error(pod)
        return CommandEnded(TIMED_OUT, timed_out=True)
    is_final = pod is not None and _is_final(pod, finished is not None, retried)
    if is_final and (ended := _pod_end(pod or {})) is not None:
        return ended
    if finished is not None:
        raise JobVanished(
            "the Job has finished, but its pod was deleted before its outcome was read"
        )
    if job is None:
        raise JobVanished("the Job was deleted before it had finished")
    if pod is not None and not deleted:
        _check_waiting(pod)
    return None


def _is_final(pod: Document, finished: bool, retried: bool) -> bool:
    """Report whether a pod's end is the command's: it is not being deleted and no other follows."""
    if finished:
        return True
    return not pod["metadata"].get("deletionTimestamp") and (not retried or _succeeded(pod))


def _pod_end(pod: Document) -> CommandEnded | None:
    """Return the end of a pod's only container, or of the pod itself."""
    status = pod.get("status", {})
    reason = status.get("reason", "")
    if status.get("phase") == "Failed" and reason == "DeadlineExceeded":
        return CommandEnded(TIMED_OUT, timed_out=True)
    if status.get("phase") == "Failed" and (reason in _DISRUPTED or _disrupted(pod)):
        raise Evicted(f"the pod was ended by the cluster: {status.get('message') or reason}")
    terminated = _state(pod).get("terminated")
    if terminated is None:
        if status.get("phase") == "Failed":
            raise Evicted(f"the pod has failed: {status.get('message') or reason or 'no reason'}")
        return None
    code, why = int(terminated.get("exitCode", 0)), terminated.get("reason", "")
    if why in _CANNOT_START:
        return _could_not_start(str(terminated.get("message", "")))
    if why == "OOMKilled":
        return CommandEnded(code, "ended: out of memory\n")
    return CommandEnded(code)


def _could_not_start(message: str) -> CommandEnded:
    missing = "not found" in message or "no such file" in message
    return CommandEnded(127 if missing else 126, f"could not be started: {message}\n")


def _check_waiting(pod: Document) -> None:
    waiting = _state(pod).get("waiting") or {}
    reason, message = waiting.get("reason", ""), waiting.get("message", "")
    if reason == "InvalidImageName":
        raise ImageInvalid(f"the image's name is invalid: {message or reason}")
    if reason in _NO_IMAGE:
        raise ImageUnavailable(f"the image cannot be pulled: {message or reason}")
    if reason in _NO_CONTAINER:
        raise ClusterRefused(f"the container cannot be created: {message or reason}")


def not_started_error(pod: Document | None) -> RunnerError:
    """Return why a command had not started when its time was up."""
    if pod is None:
        return NotScheduled("the cluster created no pod in time")
    try:
        _check_waiting(pod)
    except RunnerError as error:
        return error
    for condition in pod.get("status", {}).get("conditions") or []:
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return NotScheduled(f"no node had capacity in time: {condition.get('message', '')}")
    return NotScheduled("the command had not started when its time was up")


def _succeeded(pod: Document) -> bool:
    terminated = _state(pod).get("terminated")
    return terminated is not None and terminated.get("exitCode") == 0


def _state(pod: Document) -> Document:
    containers = pod.get("status", {}).get("containerStatuses") or []
    state: Document = containers[0].get("state") or {} if containers else {}
    return state


def _disrupted(pod: Document) -> bool:
    conditions = pod.get("status", {}).get("conditions") or []
    return any(
        one.get("type") == "DisruptionTarget" and one.get("status") == "True" for one in conditions
    )


def _condition(job: Document | None, kind: str) -> Document | None:
    for condition in (job or {}).get("status", {}).get("conditions") or []:
        if condition.get("type") == kind and condition.get("status") == "True":
            found: Document = condition
            return found
    return None
