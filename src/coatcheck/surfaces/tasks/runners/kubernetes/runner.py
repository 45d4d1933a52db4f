"""Run a command as a Job: create it or take it over, and follow it to its end.

The package's docstring describes the protocol.
"""

from __future__ import annotations

import asyncio
import logging

from lightkube.config.kubeconfig import SingleConfig

from coatcheck.clock import Clock, SystemClock, from_rfc3339
from coatcheck.surfaces.tasks.runners.cleanup import finish_cleanup
from coatcheck.surfaces.tasks.runners.kubernetes.cluster import (
    Cluster,
    ClusterBusy,
    Document,
    ObjectExists,
    ObjectMissing,
)
from coatcheck.surfaces.tasks.runners.kubernetes.log import PodLog
from coatcheck.surfaces.tasks.runners.kubernetes.manifest import LABEL, deadline, job_manifest
from coatcheck.surfaces.tasks.runners.kubernetes.settings import KubernetesSettings
from coatcheck.surfaces.tasks.runners.kubernetes.status import (
    CommandEnded,
    has_started,
    not_started_error,
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

# How long a cancelled run tries to delete its Job.
_DELETE_S = 10.0
_LOG_TIMEOUT_S = 10.0


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
        """Set where to run, and the time limits.

        Without a `config`, the cluster is the one this process runs in, or else the one in
        `KUBECONFIG`. `patience_s` is for an API that does not respond, `look_s` for a watch that
        stays silent, `overdue_s` for a cluster that does not end a Job after its deadline.
        """
        self._settings = settings
        self._config = config
        self._clock = clock or SystemClock()
        self._patience_s = patience_s
        self._look_s = look_s
        self._overdue_s = overdue_s

    async def run(self, command: Command, *, on_output: OnOutput | None = None) -> CommandResult:
        """Run a command in the cluster and return its outcome; raise RunnerError if it could not
        run.
        """
        manifest = job_manifest(command, self._settings)
        name = manifest["metadata"]["name"]
        relay = OutputRelay(on_output)
        async with Cluster(self._settings.namespace, self._config, self._patience_s) as cluster:
            run = asyncio.ensure_future(self._follow(cluster, command, manifest, relay))
            relaying = asyncio.ensure_future(relay.run())
            try:
                await asyncio.wait([run, relaying], return_when=asyncio.FIRST_EXCEPTION)
                if relaying.done():
                    relaying.result()
                result = await run
                await relaying
            except ClusterUnreachable:
                raise  # the Job may be running, and the next attempt takes it over
            except BaseException:
                run.cancel()
                if not command.is_taken_over():
                    await finish_cleanup(_delete(cluster, name))
                raise
            finally:
                relaying.cancel()
            return result

    async def _follow(
        self, cluster: Cluster, command: Command, manifest: Document, relay: OutputRelay
    ) -> CommandResult:
        log = PodLog(cluster, relay)
        try:
            started_at = self._clock.now()
            job, was_taken_over = (
                (await self._find(cluster, command.name), True)
                if command.started
                else await self._create(cluster, manifest)
            )
            if was_taken_over:
                started_at = from_rfc3339(job["metadata"]["creationTimestamp"])
            if command.on_started is not None and not command.started:
                await command.on_started()
            ended = await self._watch(cluster, manifest["metadata"]["name"], command, log)
            await log.finish(_LOG_TIMEOUT_S)
            stderr = ended.message
            if not (log.complete or ended.timed_out):
                stderr += "the log could not be read to its end\n"
            return CommandResult(
                ended.exit_code,
                log.captured.text(),
                stderr,
                started_at,
                max(started_at, self._clock.now()),
                ended.timed_out,
                ("stdout",) if log.captured.truncated else (),
            )
        finally:
            log.stop()
            relay.end()

    async def _find(self, cluster: Cluster, name: str) -> Document:
        """Return the Job that is known to have been created."""
        job = await _get_job(cluster, name)
        if job is None or job["metadata"].get("deletionTimestamp"):
            raise OutcomeUnknown(
                f"the Job {name} that an earlier attempt started is gone, so the outcome of the "
                "command is unknown; it is not run again"
            )
        return _check_owner(job, name)

    async def _create(self, cluster: Cluster, manifest: Document) -> tuple[Document, bool]:
        """Create the Job, or take over an existing one; return it and whether it was taken over."""
        name = manifest["metadata"]["name"]
        loop = asyncio.get_running_loop()
        until = loop.time() + self._patience_s
        while loop.time() < until:
            try:
                return await cluster.retry(lambda: cluster.create_job(manifest)), False
            except ObjectExists:
                job = await _get_job(cluster, name)
            if job is not None and not job["metadata"].get("deletionTimestamp"):
                return _check_owner(job, name), True
            await asyncio.sleep(0.2)  # an earlier Job, whose pods are still ending
        raise JobVanished(f"the earlier Job {name} is still being deleted")

    async def _watch(
        self, cluster: Cluster, name: str, command: Command, log: PodLog
    ) -> CommandEnded:
        loop = asyncio.get_running_loop()
        overdue = loop.time() + deadline(command, self._settings) + self._overdue_s
        pod: Document | None = None
        while True:
            job = await _get_job(cluster, name)
            pods, version = await cluster.retry(lambda: cluster.pods(name))
            pod = pods[-1] if pods else pod
            if pods and has_started(pod):
                log.follow(pods[-1]["metadata"]["name"])
                if command.on_running is not None:
                    await command.on_running()
            ended = read(job, pod, deleted=not pods, retried=self._settings.backoff_limit > 0)
            if ended is not None:
                return ended
            if pod is None:
                await self._check_pod_creation(cluster, name)
            if loop.time() > overdue:
                if not has_started(pod):
                    raise not_started_error(pod)
                await _delete(cluster, name)
                return CommandEnded(
                    TIMED_OUT, "the cluster did not end the command in time\n", timed_out=True
                )
            await cluster.wait_for_change(name, version, self._look_s)

    async def _check_pod_creation(self, cluster: Cluster, name: str) -> None:
        for message in await cluster.retry(lambda: cluster.creation_errors(name)):
            if "exceeded quota" in message:
                raise ClusterFull(f"the cluster's quota is used up: {message}")


def _check_owner(job: Document, name: str) -> Document:
    if not _is_ours(job, name):
        raise ClusterRefused(f"a Job {name} exists that Coatcheck did not create")
    logger.info("job taken over", extra={"job_name": name})
    return job


def _is_ours(job: Document, name: str) -> bool:
    return bool(job["metadata"].get("labels", {}).get(LABEL) == name)


async def _get_job(cluster: Cluster, name: str) -> Document | None:
    try:
        return await cluster.retry(lambda: cluster.job(name))
    except ObjectMissing:
        return None


async def _delete(cluster: Cluster, name: str) -> None:
    """Delete our Job; log a failure, because the Job's deadline ends it anyway."""
    try:
        async with asyncio.timeout(_DELETE_S):
            job = await _get_job(cluster, name)
            if job is not None and _is_ours(job, name):
                await cluster.retry(lambda: cluster.delete_job(name))
    except (RunnerError, ClusterBusy, TimeoutError) as error:
        logger.warning(
            "job deletion failed", extra={"job_name": name, "error": type(error).__name__}
        )
