"""The operator's settings for the Kubernetes runner."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from coatcheck.errors import ConfigurationError

_QUANTITY = re.compile(r"\d+(\.\d+)?(m|k|Ki|M|Mi|G|Gi|T|Ti)?")
_NAMESPACE = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


@dataclass(frozen=True)
class KubernetesSettings:
    """The namespace and the limits of Jobs."""

    namespace: str = "default"
    executor_image: str = "busybox:stable"
    ttl_seconds: int = 120
    active_deadline_seconds: int = 15
    backoff_limit: int = 0
    cpu_request: str = "100m"
    cpu_limit: str = "1"
    memory_request: str = "64Mi"
    memory_limit: str = "256Mi"
    scratch_limit: str = "64Mi"

    def __post_init__(self) -> None:
        if not _NAMESPACE.fullmatch(self.namespace):
            raise ConfigurationError(f"K8S_NAMESPACE: {self.namespace!r} is not a valid namespace")
        if not self.executor_image.strip():
            raise ConfigurationError("K8S_EXECUTOR_IMAGE: an image is needed")
        for name, least in (
            ("ttl_seconds", 0),
            ("active_deadline_seconds", 1),
            ("backoff_limit", 0),
        ):
            if getattr(self, name) < least:
                raise ConfigurationError(f"K8S_{name.upper()}: must be at least {least}")
        for name in ("cpu_request", "cpu_limit", "memory_request", "memory_limit", "scratch_limit"):
            if not _QUANTITY.fullmatch(getattr(self, name)):
                problem = f"{getattr(self, name)!r} is not a quantity such as 500m or 1Gi"
                raise ConfigurationError(f"K8S_{name.upper()}: {problem}")

    @classmethod
    def read(cls, values: Mapping[str, str]) -> KubernetesSettings:
        """Read `K8S_NAMESPACE`, `K8S_EXECUTOR_IMAGE`, ... from a mapping such as the environment.

        Missing and empty values have their defaults. Raises ConfigurationError if a value is
        invalid.
        """
        default = cls()
        found: dict[str, str | int] = {}
        for name, default_value in vars(default).items():
            variable = f"K8S_{name.upper()}"
            if not (text := values.get(variable, "").strip()):
                continue
            try:
                found[name] = type(default_value)(text)
            except ValueError:
                raise ConfigurationError(f"{variable}: {text!r} is not a whole number") from None
        return cls(**found)  # type: ignore[arg-type]
