"""The input of a fork of a relayed call.

A fork has an id of its own, so the credentials of its source, which are encrypted for that one, are
of no use to it. Only the owner of a job can fork it (http/auth/readers.py). For them the
credentials are decrypted and encrypted anew for the fork, if it makes the call of its source. A
call that they have written themselves is made without credentials. In any case the answer is for
the same owner, and nobody waits for it.
"""

from __future__ import annotations

from collections.abc import Callable

from coatcheck.model.job import Job
from coatcheck.model.kind import ForkInput
from coatcheck.relay.call import StoredCall
from coatcheck.relay.credentials import OWNER, Binding, CallEncryption


def forks_of(
    call_type: type[StoredCall], secrecy: Callable[[], CallEncryption], surface: str
) -> ForkInput:
    """Return the `fork_input` of a kind whose jobs are relayed calls of a surface."""

    def fork_input(text: str, source: Job, fork_id: str, by_client: bool) -> str:
        call = call_type.model_validate_json(text)
        owner = source.labels.get(OWNER)
        credentials = None
        if call.credentials is not None and not by_client:
            held = Binding(source.tenant, source.kind, source.id, call.owner)
            by_rule = source.surface == surface
            pairs = secrecy().decrypt(call.credentials, held, by_rule=by_rule)
            credentials = secrecy().encrypt(pairs, held._replace(job_id=fork_id, owner=owner))
        internal = {"credentials": credentials, "owner": owner, "owned": False, "line": None}
        return call.model_copy(update=internal).model_dump_json()

    return fork_input
