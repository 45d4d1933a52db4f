"""What a Job and its pods say about the command: not begun, running, ended, or gone wrong."""

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
# Why the cluster ends a pod that has done nothing wrong.
_TAKEN_AWAY = {
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
    """The command has ended."""

    exit_code: int
    said: str = ""  # by the cluster
    timed_out: bool = False


def has_begun(pod: Document | None) -> bool:
    """Whether the command of a pod runs, or has run."""
    state = _state(pod or {})
    return "running" in state or "terminated" in state


def read(
    job: Document | None, pod: Document | None, *, deleted: bool, retried: bool
) -> CommandEnded | None:
    """Say how the command has ended; None while it has not. Raises RunnerError.

    `pod` is the newest pod there is or was, `deleted` whether it is gone, `retried` whether the
    cluster starts another pod where one fails.
    """
    finished = _condition(job, "Complete") or _condition(job, "Failed")
    if finished is not None and finished.get("reason") == "DeadlineExceeded":
        # A Job that has counted no failed pod has never had one.
        if not has_begun(pod) and (pod is not None or not (job or {})["status"].get("failed")):
            raise never_began(pod)
        return CommandEnded(TIMED_OUT, timed_out=True)
    over = pod is not None and _is_over(pod, finished is not None, retried)
    if over and (ended := _of_pod(pod or {})) is not None:
        return ended
    if finished is not None:
        raise JobVanished("the Job has ended, and its pod was deleted before its end was seen")
    if job is None:
        raise JobVanished("the Job was deleted before it had ended")
    if pod is not None and not deleted:
        _refuse_to_wait(pod)
    return None


def _is_over(pod: Document, finished: bool, retried: bool) -> bool:
    """Whether a pod's end is the command's: nobody is ending it, and no other pod will follow."""
    if finished:
        return True
    return not pod["metadata"].get("deletionTimestamp") and (not retried or _succeeded(pod))


def _of_pod(pod: Document) -> CommandEnded | None:
    """Read the end of a pod's one container, or of the pod itself."""
    status = pod.get("status", {})
    reason = status.get("reason", "")
    if status.get("phase") == "Failed" and reason == "DeadlineExceeded":
        return CommandEnded(TIMED_OUT, timed_out=True)
    if status.get("phase") == "Failed" and (reason in _TAKEN_AWAY or _disrupted(pod)):
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
        return CommandEnded(code, "ended: it had used up its memory\n")
    return CommandEnded(code)


def _could_not_start(message: str) -> CommandEnded:
    missing = "not found" in message or "no such file" in message
    return CommandEnded(127 if missing else 126, f"could not be started: {message}\n")


def _refuse_to_wait(pod: Document) -> None:
    waiting = _state(pod).get("waiting") or {}
    reason, message = waiting.get("reason", ""), waiting.get("message", "")
    if reason == "InvalidImageName":
        raise ImageInvalid(f"the image's name cannot be read: {message or reason}")
    if reason in _NO_IMAGE:
        raise ImageUnavailable(f"the image cannot be had: {message or reason}")
    if reason in _NO_CONTAINER:
        raise ClusterRefused(f"the container cannot be made: {message or reason}")


def never_began(pod: Document | None) -> RunnerError:
    """Say why a command had not begun when its time was up."""
    if pod is None:
        return NotScheduled("the cluster has made no pod for it in time")
    try:
        _refuse_to_wait(pod)
    except RunnerError as error:
        return error
    for condition in pod.get("status", {}).get("conditions") or []:
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return NotScheduled(f"no machine had room in time: {condition.get('message', '')}")
    return NotScheduled("the command had not begun when its time was up")


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
