"""What the calls on keys and tenants take."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field

from coatcheck.http.request.models import RequestModel, parse_time
from coatcheck.model.access import LARGEST_QUOTA, LONGEST_NOTE, MOST_SCOPES, Quotas, TenantStatus

_Limit = Annotated[int, Field(ge=0, le=LARGEST_QUOTA)] | None


class KeyRequest(RequestModel):
    """A key to be made: for which tenant (the caller's own), and what it is good for."""

    tenant: str | None = None
    scopes: Annotated[list[str], Field(min_length=1, max_length=MOST_SCOPES)]
    note: Annotated[str, Field(max_length=LONGEST_NOTE)] = ""
    expires_at: Annotated[int | None, BeforeValidator(parse_time)] = None


class QuotasRequest(RequestModel):
    """What a tenant may have or hand in; null is no limit."""

    jobs_waiting: _Limit = None
    jobs_running: _Limit = None
    submits_per_minute: _Limit = None
    payload_bytes: _Limit = None
    stored_bytes: _Limit = None

    def as_quotas(self) -> Quotas:
        """Return them as a value."""
        return Quotas(**self.model_dump())


class TenantRequest(RequestModel):
    """A tenant as it should be; what is left out stays as it is."""

    status: Annotated[TenantStatus | None, Field(strict=False)] = None
    quotas: QuotasRequest | None = None
