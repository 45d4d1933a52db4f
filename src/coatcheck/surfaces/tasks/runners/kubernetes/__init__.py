"""Run commands in a cluster: each is a batch/v1 Job with a name derived from its execution.

The name is the protocol between workers. A worker creates the Job of that name. If it exists
already, an earlier worker started it, and this one takes it over: still running, or finished and
not yet deleted. So a worker's crash starts nothing twice while the cluster keeps the Job
(`K8S_TTL_SECONDS` after it has finished). After that, the caller knows from its own record that the
command was started: a missing Job is not created again, and the run fails with OutcomeUnknown.

The state of a Job comes from reading the Job and its pods in full. A watch only signals *when* to
read again. If it breaks, is rejected (410) or stays silent, the next read happens anyway, so
nothing is missed and nothing hangs:

- If the API does not respond, or responds with 5xx or 429, it is retried for `patience_s`. Then the
  run fails with ClusterUnreachable. The Job is left alone: a retry takes it over.
- A failure that is worth a retry (no capacity, no image, evicted, ...) deletes the Job, so that a
  retry starts a new one.
- A Job that the cluster has not ended after its deadline is deleted by us.
- Cancelling deletes the Job with foreground propagation: it stays visible until its pods have
  ended.

Kubernetes keeps one log per container. stdout and stderr are one text there, in the order in which
the container runtime read them, and that text is `stdout`. `stderr` holds messages of the cluster,
such as why a container could not start or that it ran out of memory.
"""

from coatcheck.surfaces.tasks.runners.kubernetes.runner import KubernetesRunner
from coatcheck.surfaces.tasks.runners.kubernetes.settings import KubernetesSettings

__all__ = ["KubernetesRunner", "KubernetesSettings"]
