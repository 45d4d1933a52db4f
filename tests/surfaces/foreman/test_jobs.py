"""`POST /jobs`: submitting, showing, webhooks."""

from __future__ import annotations

import hashlib
import hmac
import json
from typing import Any

import pytest

from coatcheck.ids import is_ulid
from tests.surfaces.foreman.conftest import HELLO, Foreman, Serve
from tests.surfaces.foreman.faulty import answering, faulty
from tests.surfaces.foreman.ollama_shim import Ollama
from tests.webhooks.receiver import Receiver, receiving

pytestmark = pytest.mark.anyio


async def test_submitted_chat_is_queued(serve: Serve, upstream: Ollama) -> None:  # F01, F02, F03
    async with serve(upstream.url, works=False) as foreman:
        ids = [await foreman.submit() for _ in range(20)]
        assert all(map(is_ulid, ids))
        assert ids == sorted(ids)
        shown = await foreman.show(ids[0])
        assert shown == {
            "job_id": ids[0],
            "state": "queued",
            "model": "tiny",
            "attempt": 0,
            "created_at": shown["created_at"],
            "started_at": None,
            "finished_at": None,
            "error": None,
            "result": None,
            "artifacts": None,
        }
        answer = await foreman.http.get("/jobs/01ARZ3NDEKTSV4RRFFQ69G5FAV")
        assert (answer.status_code, answer.json()) == (404, {"error": "Job not found"})


async def test_result_is_ollamas_response(serve: Serve, upstream: Ollama) -> None:  # F03, F13
    async with serve(upstream.url) as foreman:
        job_id = await foreman.submit(stream=True)
        shown = await foreman.ended(job_id)
        kept = await foreman.http.get(f"/v1/jobs/{job_id}/result")
        assert kept.headers["content-security-policy"] == "sandbox"
        assert upstream.generated[0]["stream"] is False
        assert (shown["state"], shown["attempt"], shown["error"]) == ("done", 1, None)
        result = shown["result"]
        assert (result["done"], result["model"]) == (True, "tiny")
        text = result["message"]["content"]
        url = f"/jobs/{job_id}/artifacts/completion"
        assert shown["artifacts"] == [
            {
                "name": "completion",
                "content_type": "text/plain; charset=utf-8",
                "size": len(text),
                "inline": text,
                "url": url,
            }
        ]
        got = await foreman.http.get(url)
        assert (got.text, got.headers["content-type"]) == (text, "text/plain; charset=utf-8")
        missing = await foreman.http.get(f"/jobs/{job_id}/artifacts/other")
        assert missing.status_code == 404
        original = await foreman.http.get(f"/v1/jobs/{job_id}/result")
        assert original.json() == result


async def test_idempotency_key_makes_one_job(serve: Serve, upstream: Ollama) -> None:
    async with serve(upstream.url, works=False) as foreman:
        body = {"model": "tiny", "messages": HELLO}
        key = {"Idempotency-Key": "k1"}
        first, second = [await foreman.http.post("/jobs", json=body, headers=key) for _ in "ab"]
        assert first.json() == second.json()
        assert second.headers["idempotency-replayed"] == "true"


RIGHTS = ("jobs:read", "jobs:write")
LONG = "x" * 300_000


@pytest.mark.parametrize("stream", [False, True])
async def test_large_result_has_a_url(serve: Serve, *, stream: bool) -> None:  # F13
    def chat(body: dict[str, Any]) -> bytes:
        done = {"model": "tiny", "done": True, "message": {"role": "assistant", "content": ""}}
        if not body["stream"]:
            whole = {**done, "message": {"role": "assistant", "content": LONG}}
            return answering(200, json.dumps(whole).encode())
        piece = {**done, "done": False, "message": {"role": "assistant", "content": LONG[:1000]}}
        lines = [*[json.dumps(piece)] * 300, json.dumps(done)]
        content = ("\n".join(lines) + "\n").encode()
        return answering(200, content, "application/x-ndjson")

    async with faulty(chat) as upstream, serve(upstream.url) as foreman:
        if stream:
            answer = await foreman.http.post("/api/chat", json={"model": "tiny", "stream": True})
            job_id = answer.headers["coatcheck-job"]
        else:
            job_id = await foreman.submit()
        shown = await foreman.ended(job_id)
        assert (shown["state"], shown["result"]) == ("done", None)
        completion, response = shown["artifacts"]
        assert (completion["name"], completion["size"]) == ("completion", len(LONG))
        assert (completion["inline"], response["inline"]) == (None, None)
        assert (await foreman.http.get(completion["url"])).text == LONG
        whole = (await foreman.http.get(response["url"])).json()
        assert (whole["message"]["content"], whole["done"]) == (LONG, True)


# --- webhooks


def told(receiver: Receiver) -> list[dict[str, Any]]:
    """Return what was told, in the order in which it happened."""
    said = [json.loads(call.body) for call in receiver.calls]
    return sorted(said, key=lambda each: (each["timestamp"], ORDER.index(each["state"])))


ORDER = ["queued", "loading", "working", "done", "failed"]


async def all_delivered(foreman: Foreman) -> None:
    await foreman.engine.dispatcher.deliver_due()


async def test_every_transition_sends_a_webhook(
    serve: Serve, upstream: Ollama
) -> None:  # F08, F09, F10
    async with receiving() as receiver:
        async with serve(upstream.url, webhook_secret="s3cret") as foreman:
            job_id = await foreman.submit(state_webhook_url=receiver.url)
            shown = await foreman.ended(job_id)
            await all_delivered(foreman)
        said = told(receiver)
        changes = [(each["previous_state"], each["state"]) for each in said]
        assert changes == [("queued", "loading"), ("loading", "working"), ("working", "done")]
        members = "job_id state previous_state timestamp model attempt error result artifacts"
        for each in said:
            assert list(each) == members.split()
            assert (each["job_id"], each["model"], each["attempt"]) == (job_id, "tiny", 1)
        assert (said[0]["result"], said[0]["artifacts"], said[0]["error"]) == (None, None, None)
        assert said[-1]["result"] == shown["result"]
        assert said[-1]["artifacts"] == shown["artifacts"]
        for call in receiver.calls:
            expected = hmac.new(b"s3cret", call.body, hashlib.sha256).hexdigest()
            assert call.headers["x-foreman-signature"] == expected
            assert "webhook-signature" not in call.headers


async def test_webhooks_are_unsigned_without_a_secret(
    serve: Serve, upstream: Ollama
) -> None:  # F10
    async with receiving() as receiver, serve(upstream.url) as foreman:
        await foreman.ended(await foreman.submit(state_webhook_url=receiver.url))
        await all_delivered(foreman)
    assert receiver.calls
    assert not any("x-foreman-signature" in call.headers for call in receiver.calls)


async def test_failing_receiver_does_not_affect_the_job(  # F10
    serve: Serve, upstream: Ollama, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "coatcheck.surfaces.foreman.webhooks.ForemanWebhookFormat.schedule_s", (0,) * 5
    )
    async with receiving(lambda _: 500) as receiver:
        async with serve(upstream.url) as foreman:
            job_id = await foreman.submit(state_webhook_url=receiver.url)
            assert (await foreman.ended(job_id))["state"] == "done"
            await all_delivered(foreman)
        tries = [json.loads(call.body)["state"] for call in receiver.calls]
        assert {state: tries.count(state) for state in tries} == {
            "loading": 5,
            "working": 5,
            "done": 5,
        }


async def test_failure_webhook_has_the_error(serve: Serve, upstream: Ollama) -> None:  # F06
    async with receiving() as receiver:
        async with serve(upstream.url) as foreman:
            job_id = await foreman.submit("none", state_webhook_url=receiver.url)
            shown = await foreman.ended(job_id)
            await all_delivered(foreman)
        assert (shown["state"], shown["error"]) == ("failed", "model 'none' not found")
        last = told(receiver)[-1]
        assert (last["state"], last["previous_state"]) == ("failed", "working")
        assert (last["error"], last["result"]) == ("model 'none' not found", None)


@pytest.mark.parametrize("url", ["http://10.1.2.3/hook", "ftp://example.com", "nonsense", 7])
async def test_denied_webhook_url_is_rejected(serve: Serve, upstream: Ollama, url: object) -> None:
    async with serve(upstream.url, works=False) as foreman:
        body = {"model": "tiny", "messages": HELLO, "state_webhook_url": url}
        answer = await foreman.http.post("/jobs", json=body)
        assert (answer.status_code, list(answer.json())) == (422, ["error"])
        assert (await foreman.http.get("/v1/jobs")).json()["jobs"] == []


async def test_cancelled_job_shows_as_failed(serve: Serve, upstream: Ollama) -> None:
    async with serve(upstream.url, works=False) as foreman:
        job_id = await foreman.submit()
        await foreman.http.post(f"/v1/jobs/{job_id}/cancel")
        shown = await foreman.show(job_id)
        assert (shown["state"], shown["error"]) == ("failed", "cancelled")


async def test_tenants_see_only_their_own_jobs(serve: Serve, upstream: Ollama) -> None:
    async with serve(upstream.url) as foreman:
        keeper = foreman.engine.authenticator
        keys = {name: (await keeper.create_key(name, RIGHTS))[1] for name in ("ada", "ida")}
        refused = await foreman.http.get("/api/tags")
        assert (refused.status_code, list(refused.json())) == (401, ["error"])
        ada, ida = ({"Authorization": f"Bearer {keys[name]}"} for name in ("ada", "ida"))
        body = {"model": "tiny", "messages": HELLO, "stream": False}
        answer = await foreman.http.post("/api/chat", json=body, headers=ada)
        assert answer.status_code == 200
        job_id = answer.headers["coatcheck-job"]
        assert (await foreman.http.get(f"/jobs/{job_id}", headers=ada)).status_code == 200
        for path in (f"/jobs/{job_id}", f"/jobs/{job_id}/artifacts/completion"):
            assert (await foreman.http.get(path, headers=ida)).status_code == 404


@pytest.mark.parametrize(
    "wrong", [{"path": "/api/delete"}, {"method": "DELETE"}, {"path": "/api/chat/../delete"}]
)
async def test_submitted_job_can_only_call_a_model(
    serve: Serve, upstream: Ollama, wrong: dict[str, str]
) -> None:
    async with serve(upstream.url, works=False) as foreman:
        call = {"method": "POST", "path": "/api/chat", "model": "tiny"}
        for input_, status in ((call, 202), ({**call, **wrong}, 422)):
            asked = {"kind": "ollama", "input": input_}
            assert (await foreman.http.post("/v1/jobs", json=asked)).status_code == status


async def test_images_are_sent_with_the_request(serve: Serve, upstream: Ollama) -> None:
    async with serve(upstream.url) as foreman:
        picture = "A" * 1_500_000
        messages = [{"role": "user", "content": "hello", "images": [picture]}]
        shown = await foreman.ended(await foreman.submit(messages=messages))
        assert shown["state"] == "done"
        assert upstream.generated[0]["messages"] == messages


async def test_request_over_the_limit_is_rejected(serve: Serve, upstream: Ollama) -> None:
    async with serve(upstream.url, max_body="1KB", works=False) as foreman:
        for path in ("/api/generate", "/jobs", "/api/embed"):
            body = {"model": "tiny", "prompt": "A" * 1_100}
            answer = await foreman.http.post(path, json=body)
            assert (answer.status_code, list(answer.json())) == (413, ["error"])
        assert (await foreman.http.get("/v1/jobs")).json()["jobs"] == []
