"""The shipped NetworkPolicy selects every pod that runs a command, and allows nothing."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from lightkube.resources.networking_v1 import NetworkPolicy

from coatcheck.surfaces.tasks.runners import Command
from coatcheck.surfaces.tasks.runners.kubernetes import KubernetesSettings
from coatcheck.surfaces.tasks.runners.kubernetes.manifest import job_manifest
from tests.surfaces.tasks.kubernetes.conftest import MakeRunner, command
from tests.surfaces.tasks.kubernetes.fake_cluster import FakeCluster

ROOT = Path(__file__).parents[4]
FILE = ROOT / "deploy/kubernetes/network-policy.yaml"
PAGE = ROOT / "docs/how-to/run-commands.md"


@pytest.fixture
def policy() -> dict[str, Any]:
    [found] = yaml.safe_load_all(FILE.read_text(encoding="utf-8"))
    return dict(found)


def selects(policy: dict[str, Any], labels: dict[str, str]) -> bool:
    """Report whether a policy applies to a pod with these labels."""
    selector = policy["spec"]["podSelector"]
    assert set(selector) == {"matchLabels"}
    return bool(selector["matchLabels"].items() <= labels.items())


def pod_labels(**settings: Any) -> dict[str, str]:
    command = Command(("true",), "execution-1")
    manifest = job_manifest(command, KubernetesSettings(**settings))
    return dict(manifest["spec"]["template"]["metadata"]["labels"])


def test_policy_is_valid(policy: dict[str, Any]) -> None:
    assert NetworkPolicy.from_dict(policy).to_dict() == policy
    assert (policy["apiVersion"], policy["kind"]) == ("networking.k8s.io/v1", "NetworkPolicy")
    assert "namespace" not in policy["metadata"], "it is applied to the namespace in use"


def test_documentation_shows_the_same_policy(policy: dict[str, Any]) -> None:
    [shown] = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert yaml.safe_load(shown) == policy


def test_no_traffic_is_allowed_in_either_direction(policy: dict[str, Any]) -> None:
    spec = policy["spec"]
    assert sorted(spec["policyTypes"]) == ["Egress", "Ingress"]
    assert set(spec) == {"podSelector", "policyTypes"}, "no rule that allows anything"


def test_policy_selects_only_pods_of_commands(policy: dict[str, Any]) -> None:
    assert selects(policy, pod_labels())
    assert selects(policy, pod_labels(namespace="other", executor_image="alpine:3"))
    assert not selects(policy, {"app.kubernetes.io/managed-by": "coatcheck"})
    assert not selects(policy, {})


@pytest.mark.anyio
async def test_created_pods_are_selected(
    policy: dict[str, Any], make_runner: MakeRunner, fake: FakeCluster
) -> None:
    assert (await make_runner().run(command("true"))).exit_code == 0
    pods = fake.objects.list("pods", {})
    assert [selects(policy, pod["metadata"]["labels"]) for pod in pods] == [True]


def test_pod_cannot_bypass_the_policy() -> None:
    """A pod in its node's network is subject to no policy; a token would open the API."""
    spec = job_manifest(Command(("true",), "x"), KubernetesSettings())["spec"]["template"]["spec"]
    for name in ("hostNetwork", "hostPID", "hostIPC", "serviceAccountName"):
        assert name not in spec
    assert spec["automountServiceAccountToken"] is False
    assert spec["enableServiceLinks"] is False
    assert all(set(volume) == {"name", "emptyDir"} for volume in spec["volumes"])
