"""The Job manifest of one command."""

from __future__ import annotations

import math
from typing import Any

from coatcheck.surfaces.tasks.runners.kubernetes.settings import KubernetesSettings
from coatcheck.surfaces.tasks.runners.runner import Command

CONTAINER = "command"
LABEL = "coatcheck-execution"
# The NetworkPolicy in deploy/kubernetes selects pods by these.
POD_LABELS = {
    "app.kubernetes.io/managed-by": "coatcheck",
    "app.kubernetes.io/component": "execution",
}
_FOLDER = "/work"
_NOBODY = 65534
# From SIGTERM to SIGKILL.
_GRACE_S = 2


def job_manifest(command: Command, settings: KubernetesSettings) -> dict[str, Any]:
    """Return the batch/v1 Job that runs a command as nobody, without privileges."""
    name = command.name
    labels = {**POD_LABELS, LABEL: name}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": settings.namespace, "labels": labels},
        "spec": {
            "activeDeadlineSeconds": deadline(command, settings),
            "backoffLimit": settings.backoff_limit,
            "ttlSecondsAfterFinished": settings.ttl_seconds,
            "template": {"metadata": {"labels": labels}, "spec": _pod(command, settings)},
        },
    }


def deadline(command: Command, settings: KubernetesSettings) -> int:
    """Return the whole seconds that a command has in the cluster, from the Job's start."""
    return math.ceil(command.seconds or settings.active_deadline_seconds)


def _pod(command: Command, settings: KubernetesSettings) -> dict[str, Any]:
    environment = {"HOME": _FOLDER, "TMPDIR": _FOLDER, "LANG": "C.UTF-8", **command.environment}
    return {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": _GRACE_S,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _NOBODY,
            "runAsGroup": _NOBODY,
            "fsGroup": _NOBODY,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumes": [{"name": "scratch", "emptyDir": {"sizeLimit": settings.scratch_limit}}],
        "containers": [
            {
                "name": CONTAINER,
                "image": settings.executor_image,
                "command": [_literal(part) for part in command.argv],
                "workingDir": _FOLDER,
                "env": [
                    {"name": key, "value": _literal(value)} for key, value in environment.items()
                ],
                "volumeMounts": [{"name": "scratch", "mountPath": _FOLDER}],
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "readOnlyRootFilesystem": True,
                    "privileged": False,
                    "capabilities": {"drop": ["ALL"]},
                },
                "resources": {
                    "requests": {"cpu": settings.cpu_request, "memory": settings.memory_request},
                    "limits": {"cpu": settings.cpu_limit, "memory": settings.memory_limit},
                },
            }
        ],
    }


def _literal(text: str) -> str:
    """Escape text so that Kubernetes does not expand `$(NAME)` in it."""
    return text.replace("$", "$$")
