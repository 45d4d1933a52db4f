"""What every refusal of the API has in common."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import httpx2


def read_problem(answer: httpx2.Response, status: int, code: str) -> dict[str, Any]:
    """Check that an answer is this problem, whole and well-formed, and return its body."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    body: dict[str, Any] = answer.json()
    assert body["type"] == f"urn:coatcheck:{code}"
    assert body["status"] == status
    assert body["title"] == HTTPStatus(status).phrase
    assert body["detail"], "a problem says what is wrong"
    assert body["correlation_id"] == answer.headers["x-correlation-id"]
    assert set(body) <= {"type", "title", "status", "detail", "errors", "correlation_id"}
    return body
