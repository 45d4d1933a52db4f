"""Names for domains from a language model, if the operator has configured one (settings.py).

The model gets the paths of a domain's files and nothing else, and returns a few words. Each answer
is a step of the job: once recorded, it is not requested again. If the request fails, the domain
keeps the name made from its paths.
"""

from __future__ import annotations

import json
import logging
from urllib.parse import urlsplit

from coatcheck.egress.outbound import OutboundClient
from coatcheck.egress.policy import EgressPolicy
from coatcheck.errors import CoatcheckError, InvalidInput, NotFound
from coatcheck.model.confinement import ServedJob
from coatcheck.surfaces.graphs.settings import NamingSettings

log = logging.getLogger(__name__)

# Requests from a job's process to its worker (model/confinement.py): whether an endpoint names
# domains, and one name. The process has neither the endpoint's key nor a network.
NAMING, NAME_DOMAIN = "naming", "name-domain"
LONGEST_PATHS = 1024 * 1024
# The first files of a large domain are enough.
MOST_FILES = 60
LONGEST_NAME = 60
TIMEOUT_S = 30.0
MOST_BYTES = 256 * 1024
_ASKED = (
    "You name parts of codebases. From the paths of its files, answer with a name of two to four "
    "words for what this part is about, and nothing else."
)


class NamingService:
    """Answers requests for domain names, if the operator has configured an endpoint."""

    def __init__(self, naming: NamingSettings | None) -> None:
        self._naming = naming

    async def answer(self, job: ServedJob, name: str, body: bytes) -> bytes:  # noqa: ARG002
        """Answer a request from a job's process."""
        match name:
            case _ if name == NAMING:
                return b"" if self._naming is None else b"yes"
            case _ if name == NAME_DOMAIN and self._naming is not None:
                return (await ask_for_name(_paths(body), self._naming)).encode()
        raise NotFound(f"code graphs have no service {name!r}")


def _paths(body: bytes) -> list[str]:
    if len(body) > LONGEST_PATHS:
        raise InvalidInput(f"the paths of a domain have at most {LONGEST_PATHS} bytes")
    try:
        return [str(path) for path in json.loads(body)]
    except (ValueError, TypeError) as error:
        raise InvalidInput("the paths of a domain are a list") from error


async def ask_for_name(paths: list[str], naming: NamingSettings) -> str:
    """Request the name of a domain. Returns an empty text if the request fails."""
    try:
        return await _ask(paths, naming)
    except (CoatcheckError, ValueError, KeyError, TypeError, IndexError) as error:
        log.warning("domain not named", extra={"why": type(error).__name__})
        return ""


async def _ask(paths: list[str], naming: NamingSettings) -> str:
    # The operator configured the address, so it may be any address, and it is the only one allowed.
    outbound = OutboundClient(EgressPolicy(urlsplit(naming.url).hostname or ""))
    headers = {"content-type": "application/json"}
    if secret := naming.secret:
        headers["authorization"] = f"Bearer {secret}"
    said = [
        {"role": "system", "content": _ASKED},
        {"role": "user", "content": "\n".join(paths[:MOST_FILES])},
    ]
    body = {"model": naming.model, "messages": said, "temperature": 0, "max_tokens": 40}
    answer = await outbound.send(
        "POST",
        f"{naming.url}/chat/completions",
        headers,
        json.dumps(body).encode(),
        timeout_s=TIMEOUT_S,
        max_bytes=MOST_BYTES,
    )
    if answer.status != 200:
        raise ValueError(f"the endpoint answered {answer.status}")
    name = json.loads(answer.body)["choices"][0]["message"]["content"]
    return tidied(name)


def tidied(said: str) -> str:
    """Return a model's answer as a name: one line, without quotes, not too long."""
    lines = said.strip().splitlines()
    name = lines[0].strip(" \t\"'`*.#") if lines else ""
    name = "".join(each for each in name if each.isprintable())
    return name if len(name) <= LONGEST_NAME else ""
