"""The server at the address: does it answer, and can it take jobs in?"""

from __future__ import annotations

from coatcheck.cli import exit_codes
from coatcheck.cli.api import Api, ApiError, ServerUnreachable
from coatcheck.cli.doctor.findings import Finding, ok, problem, warning

AREA = "server"
TIMEOUT_S = 5.0


def check_server(url: str, shown: str, api_key: str | None, *, asked_for: bool) -> Finding:
    """Ask a server whether it is ready. One that nobody named need not be there."""
    try:
        with Api(url, api_key, timeout=TIMEOUT_S) as api:
            kinds = len(api.kinds())
            api.read("/readyz", "status")
    except ServerUnreachable:
        advice = "start one with coatcheck serve MODULE:APP, or name another with --url"
        return (problem if asked_for else warning)(AREA, f"nothing answers at {shown}", advice)
    except ApiError as error:
        advice = "see its log" if error.exit_code == exit_codes.UNREACHABLE else "correct --url"
        return problem(AREA, f"{shown} answers: {error}", advice)
    except (LookupError, TypeError):
        return problem(AREA, f"what answers at {shown} is not Coatcheck", "correct --url")
    return ok(AREA, f"{shown} is ready and takes {kinds} kind(s)")
