"""A command as a Job: created or taken over, followed to its end. See the package's own words."""

from __future__ import annotations

import asyncio
import logging

from lightkube.config.kubeconfig import SingleConfig

from coatcheck.clock import Clock, SystemClock, from_rfc3339
from coatcheck.surfaces.tasks.runners.cleanup import to_the_end
from coatcheck.surfaces.tasks.runners.kubernetes.cluster import (
    Cluster,
    ClusterBusy,
    Document,
    ObjectExists,
    ObjectMissing,
)
from coatcheck.surfaces.tasks.runners.kubernetes.log import Log
from coatcheck.surfaces.tasks.runners.kubernetes.manifest import LABEL, deadline, job_manifest
from coatcheck.surfaces.tasks.runners.kubernetes.settings import KubernetesSettings
from coatcheck.surfaces.tasks.runners.kubernetes.status import (
    CommandEnded,
    has_begun,
    never_began,
    read,
)
from coatcheck.surfaces.tasks.runners.output import OutputRelay
from coatcheck.surfaces.tasks.runners.runner import (
    TIMED_OUT,
    ClusterFull,
    ClusterRefused,
    ClusterUnreachable,
    Command,
    CommandResult,
    JobVanished,
    OnOutput,
    OutcomeUnknown,
    RunnerError,
)

logger = logging.getLogger("coatcheck.tasks")

# How long a cancelled run tries to have its Job deleted.
_DELETE_S = 10.0
_LAST_WORDS_S = 10.0


class KubernetesRunner:
    """Runs commands as Jobs of a cluster."""

    def __init__(
        self,
        settings: KubernetesSettings,
        *,
        config: SingleConfig | None = None,
        clock: Clock | None = None,
        patience_s: float = 30.0,
        look_s: float = 5.0,
        overdue_s: float = 30.0,
    ) -> None:
        """Take where to run, and how patient to be.

        Without a `config` the cluster is the one we are in, else the one that `KUBECONFIG` names.
        `patience_s` is for an API that does not answer, `look_s` for a watch that stays silent,
        `overdue_s` for a cluster that does not end what is past its deadline.
        """
        self._settings = settings
        self._config = config
        self._clock = clock or SystemClock()
        self._patience_s = patience_s
        self._look_s = look_s
        self._overdue_s = overdue_s

    async def run(self, command: Command, *, on_output: OnOutput | None = None) -> CommandResult:
        """Run a command in the cluster and say how it went; raises RunnerError."""
        manifest = job_manifest(command, self._settings)
        name = manifest["metadata"]["name"]
        telling = OutputRelay(on_output)
        async with Cluster(self._settings.namespace, self._config, self._patience_s) as cluster:
            following = asyncio.ensure_future(self._follow(cluster, command, manifest, telling))
            told = asyncio.ensure_future(telling.run())
            try:
                await asyncio.wait([following, told], return_when=asyncio.FIRST_EXCEPTION)
                if told.done():
                    told.result()
                ran = await following
                await told
            except ClusterUnreachable:
                raise  # it may be running there, and whoever comes next takes it over
            except BaseException:
                following.cancel()
                if not command.is_taken_over():
                    await to_the_end(_delete(cluster, name))
                raise
            finally:
                told.cancel()
            return ran

    async def _follow(
        self, cluster: Cluster, command: Command, manifest: Document, telling: OutputRelay
    ) -> CommandResult:
        log = Log(cluster, telling)
        try:
            started_at = self._clock.now()
            job, taken_over = (
                (await self._find(cluster, command.name), True)
                if command.begun
                else await self._create(cluster, manifest)
            )
            if taken_over:
                started_at = from_rfc3339(job["metadata"]["creationTimestamp"])
            if command.on_begun is not None and not command.begun:
                await command.on_begun()
            ended = await self._watch(cluster, manifest["metadata"]["name"], command, log)
            await log.finish(_LAST_WORDS_S)
            said = ended.said
            if not (log.complete or ended.timed_out):
                said += "the log could not be read to its end\n"
            return CommandResult(
                ended.exit_code,
                log.captured.text(),
                said,
                started_at,
                max(started_at, self._clock.now()),
                ended.timed_out,
                ("stdout",) if log.captured.truncated else (),
            )
        finally:
            log.stop()
            telling.end()

    async def _find(self, cluster: Cluster, name: str) -> Document:
        """Return the Job that is known to have been created."""
        job = await _or_none(cluster, name)
        if job is None or job["metadata"].get("deletionTimestamp"):
            raise OutcomeUnknown(
                f"the Job {name} that an earlier attempt started is gone, and with it how the "
                "command ended; it is not run again"
            )
        return _ours(job, name)

    async def _create(self, cluster: Cluster, manifest: Document) -> tuple[Document, bool]:
        """Create the Job, or take over the one there is; say which."""
        name = manifest["metadata"]["name"]
        loop = asyncio.get_running_loop()
        until = loop.time() + self._patience_s
        while loop.time() < until:
            try:
                return await cluster.patiently(lambda: cluster.create_job(manifest)), False
            except ObjectExists:
                job = await _or_none(cluster, name)
            if job is not None and not job["metadata"].get("deletionTimestamp"):
                return _ours(job, name), True
            await asyncio.sleep(0.2)  # one from before, whose pods are still ending
        raise JobVanished(f"the Job {name} from before is still being deleted")

    async def _watch(self, cluster: Cluster, name: str, command: Command, log: Log) -> CommandEnded:
        loop = asyncio.get_running_loop()
        overdue = loop.time() + deadline(command, self._settings) + self._overdue_s
        pod: Document | None = None
        while True:
            job = await _or_none(cluster, name)
            pods, version = await cluster.patiently(lambda: cluster.pods(name))
            pod = pods[-1] if pods else pod
            if pods and has_begun(pod):
                log.follow(pods[-1]["metadata"]["name"])
                if command.on_running is not None:
                    await command.on_running()
            ended = read(job, pod, deleted=not pods, retried=self._settings.backoff_limit > 0)
            if ended is not None:
                return ended
            if pod is None:
                await self._refuse_to_wait_for_a_pod(cluster, name)
            if loop.time() > overdue:
                if not has_begun(pod):
                    raise never_began(pod)
                await _delete(cluster, name)
                return CommandEnded(
                    TIMED_OUT, "the cluster did not end it in time\n", timed_out=True
                )
            await cluster.news(name, version, self._look_s)

    async def _refuse_to_wait_for_a_pod(self, cluster: Cluster, name: str) -> None:
        for complaint in await cluster.patiently(lambda: cluster.complaints(name)):
            if "exceeded quota" in complaint:
                raise ClusterFull(f"the cluster takes no more for now: {complaint}")


def _ours(job: Document, name: str) -> Document:
    if not _is_ours(job, name):
        raise ClusterRefused(f"there is a Job {name} that is not ours")
    logger.info("a Job was found again", extra={"job_name": name})
    return job


def _is_ours(job: Document, name: str) -> bool:
    return bool(job["metadata"].get("labels", {}).get(LABEL) == name)


async def _or_none(cluster: Cluster, name: str) -> Document | None:
    try:
        return await cluster.patiently(lambda: cluster.job(name))
    except ObjectMissing:
        return None


async def _delete(cluster: Cluster, name: str) -> None:
    """Have a Job of ours deleted, or say in the log that it could not be: its deadline ends it."""
    try:
        async with asyncio.timeout(_DELETE_S):
            job = await _or_none(cluster, name)
            if job is not None and _is_ours(job, name):
                await cluster.patiently(lambda: cluster.delete_job(name))
    except (RunnerError, ClusterBusy, TimeoutError) as error:
        logger.warning(
            "a Job could not be deleted", extra={"job_name": name, "error": type(error).__name__}
        )
