"""What the proxy answers: a call by a rule, and the answer of one that was made."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from coatcheck.engine.engine import Engine
from coatcheck.engine.submit.submission import Submission
from coatcheck.engine.submit.submitter import Submitted
from coatcheck.errors import NotFound
from coatcheck.http.auth.caller import tenant_of
from coatcheck.http.endpoint import Handler
from coatcheck.http.jobs.handlers import job_response
from coatcheck.http.surfaces.submit import submit_idempotent
from coatcheck.model.job import Job
from coatcheck.relay.credentials import OWNER, CallEncryption
from coatcheck.relay.headers import Pairs
from coatcheck.relay.intake import headers_of, take
from coatcheck.relay.replay import answer_kept
from coatcheck.relay.responder import Responder, ResponderOptions, wait_of
from coatcheck.surfaces.proxy.rule import RESERVED, SURFACE, Rule


class ProxyHandlers:
    """The calls of a server."""

    def __init__(self, secrecy: CallEncryption) -> None:
        self._secrecy = secrecy
        self._reception = Responder(secrecy)

    def by(self, rule: Rule) -> Handler:
        """Return what answers the calls of a rule."""

        async def hand_on(request: Request) -> Response:
            """Hand a call on to the rule's target, as a job: its answer where that comes in time,
            else 202.
            """
            if request.scope["path"].split("/")[1] in RESERVED:
                raise NotFound("there is nothing at this address")
            engine: Engine = request.app.state.engine
            taken = await take(request, engine, tenant_of(request), rule.keeps, self._secrecy)

            async def submit(asked: Submission) -> Submitted:
                named = asked._replace(surface=SURFACE)
                return await submit_idempotent(request, named, taken.fingerprint)

            def accepted(job: Job, headers: Pairs) -> Response:
                where = {"Location": f"/v1/jobs/{job.id}", "Coatcheck-Job": job.id}
                return job_response(engine, job, 202, {**where, **dict(headers)})

            wait = wait_of(request, rule.wait_s)
            manners = ResponderOptions(accepted, on_hangup=rule.on_hangup)
            return await self._reception.receive(request, engine, taken, submit, wait, manners)

        return hand_on

    def check_reader(self, request: Request, job: Job) -> None:
        """Raise NotFound unless a caller comes with the credential that the job came with."""
        engine: Engine = request.app.state.engine
        if not self._secrecy.is_owner(job.labels.get(OWNER), headers_of(request, engine)):
            raise NotFound(f"there is no job {job.id}")

    async def result(self, request: Request, job: Job) -> Response:
        """Answer as the target did."""
        return await answer_kept(request.app.state.engine, request, job, self._secrecy)
