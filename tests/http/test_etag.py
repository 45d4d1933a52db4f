"""`ETag` and `If-None-Match` on a job: who has seen it is not sent it again."""

from __future__ import annotations

import httpx2
import pytest

from coatcheck.engine.engine import Engine
from tests.http.arrange import Submit

pytestmark = pytest.mark.anyio


async def test_the_tag_stays_while_the_job_does(http: httpx2.AsyncClient, submit: Submit) -> None:
    path = f"/v1/jobs/{(await submit('echo'))['id']}"
    first, second = await http.get(path), await http.get(path)

    tag = first.headers["etag"]
    assert tag == second.headers["etag"]
    assert tag[0] == tag[-1] == '"'
    assert "no-cache" in first.headers["cache-control"]

    for given in (tag, f'"other", {tag}', f"W/{tag}"):
        answer = await http.get(path, headers={"If-None-Match": given})
        assert (answer.status_code, answer.content) == (304, b"")
        assert answer.headers["etag"] == tag


async def test_the_tag_changes_with_the_job(
    http: httpx2.AsyncClient, submit: Submit, engine: Engine, claimer: str
) -> None:
    path = f"/v1/jobs/{(await submit('echo'))['id']}"
    tags = [(await http.get(path)).headers["etag"]]
    await engine.claim(claimer, ["echo"], 1)
    tags.append((await http.get(path)).headers["etag"])
    await engine.store.workers.remove_worker(claimer, None, engine.clock.now())

    answer = await http.get(path, headers={"If-None-Match": tags[0]})

    assert answer.status_code == 200
    assert answer.headers["etag"] not in tags
    assert tags[0] != tags[1]


async def test_another_view_has_another_tag(http: httpx2.AsyncClient, submit: Submit) -> None:
    path = f"/v1/jobs/{(await submit('echo'))['id']}"

    plain, explained = await http.get(path), await http.get(f"{path}?explain=1")

    assert plain.headers["etag"] != explained.headers["etag"]


async def test_a_tag_of_something_else_is_no_match(
    http: httpx2.AsyncClient, submit: Submit
) -> None:
    path = f"/v1/jobs/{(await submit('echo'))['id']}"

    for given in ('"x"', "x", "", '""'):
        assert (await http.get(path, headers={"If-None-Match": given})).status_code == 200
