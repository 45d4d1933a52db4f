"""The Job manifest: valid, and without privileges."""  # T14

from __future__ import annotations

import pytest
from lightkube.resources.batch_v1 import Job

from coatcheck.errors import ConfigurationError
from coatcheck.surfaces.tasks.runners import Command
from coatcheck.surfaces.tasks.runners.kubernetes import KubernetesSettings
from coatcheck.surfaces.tasks.runners.kubernetes.manifest import job_manifest

COMMAND = Command(("echo", "hello"), "execution-1")


def test_manifest_is_valid() -> None:
    manifest = job_manifest(COMMAND, KubernetesSettings())
    assert Job.from_dict(manifest).to_dict() == manifest


def test_pod_has_no_privileges() -> None:
    spec = job_manifest(COMMAND, KubernetesSettings())["spec"]["template"]["spec"]
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    (container,) = spec["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "privileged": False,
        "capabilities": {"drop": ["ALL"]},
    }
    assert set(container["resources"]) == {"requests", "limits"}


def test_settings_are_applied() -> None:
    settings = KubernetesSettings.read(
        {
            "K8S_NAMESPACE": "commands",
            "K8S_EXECUTOR_IMAGE": "alpine:3",
            "K8S_TTL_SECONDS": "60",
            "K8S_ACTIVE_DEADLINE_SECONDS": "20",
            "K8S_BACKOFF_LIMIT": "2",
            "HOME": "/root",
        }
    )
    manifest = job_manifest(COMMAND, settings)
    assert manifest["metadata"]["namespace"] == "commands"
    spec = manifest["spec"]
    found = (spec["ttlSecondsAfterFinished"], spec["activeDeadlineSeconds"], spec["backoffLimit"])
    assert found == (60, 20, 2)
    assert spec["template"]["spec"]["containers"][0]["image"] == "alpine:3"


def test_default_settings_match_the_specification() -> None:
    settings = KubernetesSettings.read({"K8S_TTL_SECONDS": ""})
    assert (settings.ttl_seconds, settings.active_deadline_seconds, settings.backoff_limit) == (
        120,
        15,
        0,
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("K8S_TTL_SECONDS", "soon"),
        ("K8S_TTL_SECONDS", "-1"),
        ("K8S_ACTIVE_DEADLINE_SECONDS", "0"),
        ("K8S_BACKOFF_LIMIT", "1.5"),
        ("K8S_NAMESPACE", "Not_One"),
        ("K8S_NAMESPACE", "../kube-system"),
        ("K8S_MEMORY_LIMIT", "much"),
    ],
)
def test_invalid_settings_are_rejected(name: str, value: str) -> None:
    with pytest.raises(ConfigurationError, match=name):
        KubernetesSettings.read({name: value})


def test_command_can_set_its_time_limit() -> None:
    command = Command(("true",), "x", seconds=7.2)
    assert job_manifest(command, KubernetesSettings())["spec"]["activeDeadlineSeconds"] == 8
