"""Commands in a cluster: each is a batch/v1 Job whose name is derived from its execution.

The name is the protocol between workers. Who runs an execution creates the Job of that name; where
it is there already, somebody has started it before and has gone, and it is taken over as it is:
still running, or ended and not yet cleaned up. So a worker's crash starts nothing twice, as long as
the Job is still known to the cluster (`K8S_TTL_SECONDS` after it has ended). After that it is known
to have been started by whoever runs it, who has noted that: what is then not there is not created
again, and the run fails with OutcomeUnknown.

What is known of a Job is what a look at it says: the Job and its pods, read whole. A watch only
says *when* to look again. Where it breaks, is refused (410), or stays silent, the next look comes
anyway, so nothing is missed and nothing hangs:

- An API that does not answer, or answers 5xx or 429, is asked again for `patience_s`; then the run
  fails with ClusterUnreachable. The Job is left alone: a retry takes it over.
- What can be worth retrying (no room, no image, evicted, ...) ends with the Job deleted, so that a
  retry starts a new one.
- A Job that is past its deadline and that the cluster has not ended is deleted by us.
- Cancelling deletes the Job, its pods in the foreground: it stays in sight until they have ended.

Kubernetes keeps one log a container. stdout and stderr are one text there, in the order in which
the cluster's runtime has read them, and that text is `stdout`. `stderr` holds what the cluster
says, such as why a container could not start or that it had used up its memory.
"""

from coatcheck.surfaces.tasks.runners.kubernetes.runner import KubernetesRunner
from coatcheck.surfaces.tasks.runners.kubernetes.settings import KubernetesSettings

__all__ = ["KubernetesRunner", "KubernetesSettings"]
