"""Every example in the documentation runs unchanged, except for the port and the job's id."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2

from coatcheck import Client
from tests.node import node

from .pages import PAGES, ROOT, blocks, run_curl, write_files, write_python_files

README = ROOT / "README.md"
# A flag without effect: a supervised API and worker, as without flags.
AS_IT_STANDS = "--host=127.0.0.1"


@contextmanager
def serving(folder: Path, app: str, *flags: str, **settings: str) -> Iterator[str]:
    """Serve an app of the documentation from a folder, on a free port.

    It runs in one process unless flags say otherwise: three take twice as long to start.
    """
    how = flags or ("--in-process",)
    command = [sys.executable, "-m", "coatcheck", "serve", app, "--port", "0", *how]
    environment = {**os.environ, **settings}
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout is not None
            yield server.stdout.readline().split()[3]
        finally:
            server.terminate()


def test_the_readme(tmp_path: Path) -> None:
    assert write_python_files(README, tmp_path) == ["tasks.py", "ask.py"]
    commands = [
        block.text for block in blocks(README) if block.language == "sh" and "curl" in block.text
    ]
    with serving(tmp_path, "tasks:app", AS_IT_STANDS) as url:
        submit, come_back = (text.replace("http://127.0.0.1:8080", url) for text in commands)
        accepted = run_curl(submit)
        assert accepted.status_code == 202
        location = accepted.headers["Location"]
        job_id = location.rpartition("/")[2]
        sample_id = come_back.partition("/jobs/")[2].partition("?")[0]
        answer = run_curl(come_back.replace(sample_id, job_id))
        assert (answer.status_code, answer.json()["state"]) == (200, "succeeded")
        assert answer.json()["result"] == {"month": "2030-01", "pages": 10}
        assert answer.json()["progress"]["message"] == "page 10"

        write_python_files(README, tmp_path, url)
        asked = subprocess.run(
            [sys.executable, "ask.py"], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        assert asked.stdout.splitlines()[-1] == "{'month': '2030-01', 'pages': 10}"


def test_retries_and_timeouts(tmp_path: Path) -> None:
    page = ROOT / "docs/how-to/retries-and-timeouts.md"
    write_python_files(page, tmp_path)
    with serving(tmp_path, "steering:app") as url, Client(url) as client:
        assert client.run("fetch", "http://example.com") == "got http://example.com"
        job = client.wait(client.submit("fetch", "ftp://example.com").id)
        assert (job["state"], job["error"]["code"], job["attempt"]) == ("failed", "unsupported", 1)
        write_python_files(page, tmp_path, url)
        cancelled = subprocess.run(
            [sys.executable, "cancel.py"], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        assert cancelled.stdout.strip() in ("cancelled", "running", "queued")


def test_limits(tmp_path: Path) -> None:
    page = ROOT / "docs/how-to/limits.md"
    assert write_python_files(page, tmp_path) == ["limited.py", "warm.py", "pinned.py"]
    [commands] = [block.text for block in blocks(page) if block.language == "sh"]
    with serving(tmp_path, "limited:app") as url, Client(url) as client:
        assert client.run("report", "2030-01") == "report of 2030-01"
        orders = [client.submit("invoice", {"customer": name}) for name in ("ada", "ada", "ida")]
        said = [handle.result() for handle in orders]
        assert said == ["invoice for ada", "invoice for ada", "invoice for ida"]
        calls = [client.submit("call_partner", number) for number in range(4)]
        assert [handle.result() for handle in calls] == [0, 1, 2, 3]
        limits = []
        for command in commands.splitlines():
            ended = subprocess.run(
                [sys.executable, "-m", *command.split(), "--json"],
                env={**os.environ, "COATCHECK_URL": url},
                capture_output=True,
                text=True,
                check=True,
            )
            limits.append(json.loads(ended.stdout)["concurrency"])
        assert limits == [1, None]
    with serving(tmp_path, "warm:app") as url, Client(url) as client:
        assert client.run("ask", "why?", queue="model.small") == "small says: why?"
    with serving(tmp_path, "pinned:app") as url, Client(url) as client:
        assert client.run("onboard", "Ada") == "welcome, Ada"


def test_get_results(tmp_path: Path) -> None:
    page = ROOT / "docs/how-to/get-results.md"
    write_python_files(page, tmp_path)
    commands = [block.text for block in blocks(page) if block.language == "sh"]
    with serving(tmp_path, "tickets:app") as url:
        here = [text.replace("http://127.0.0.1:8080", url) for text in commands]
        first, again = run_curl(here[0]), run_curl(here[0])
        assert (first.status_code, first.json()["result"]) == (200, "3 loaves")
        assert first.headers["Preference-Applied"] == "wait=10"
        assert again.headers["Idempotency-Replayed"] == "true"
        assert again.json()["id"] == first.json()["id"]
        answers = [
            run_curl(text.replace("01M7GDTNAQ55VVM48585MMPRGK", first.json()["id"]))
            for text in here[1:]
        ]
        waited, result, events, explained = answers
        assert waited.json()["state"] == "succeeded"
        assert result.json() == "3 loaves"
        assert "event: progress" in events.text
        assert events.text.rstrip().rpartition("event: ")[2].startswith("end\n")
        assert explained.json()["explain"][0]["code"] == "ended"


def test_a_worker_in_any_language(tmp_path: Path) -> None:
    page = ROOT / "docs/how-to/workers-in-any-language.md"
    write_python_files(page, tmp_path)
    with serving(tmp_path, "gateway:app", "--no-worker") as url, Client(url) as client:
        write_python_files(page, tmp_path, url)
        handle = client.submit("shout", "hello")
        subprocess.run([sys.executable, "remote.py"], cwd=tmp_path, check=True)
        assert handle.result() == "HELLO"
        assert handle.job["progress"]["message"] == "taking a breath"
        [step] = handle.steps()
        assert (step["name"], step["result"]) == ("upper", "HELLO")


# I18
def test_a_worker_in_node(tmp_path: Path) -> None:
    page = ROOT / "docs/how-to/workers-in-any-language.md"
    write_python_files(page, tmp_path)
    shutil.copy(ROOT / "examples/worker.mjs", tmp_path)
    with serving(tmp_path, "gateway:app", "--no-worker") as url, Client(url) as client:
        [program] = write_files(page, tmp_path, "js", url)
        with subprocess.Popen([node(), program], cwd=tmp_path) as worker:
            handle = client.submit("shout", "hello you")
            assert handle.result() == "HELLO YOU"
            nothing = client.wait(client.submit("shout", " ").id)
            worker.terminate()
        assert worker.returncode == 0
        assert [step["result"] for step in handle.steps()] == [["hello", "you"], "HELLO", "YOU"]
        assert handle.refresh()["progress"]["message"] == "words shouted"
        assert (nothing["state"], nothing["error"]["code"]) == ("failed", "bad-input")


def test_python_client(tmp_path: Path) -> None:
    page = ROOT / "docs/how-to/python-client.md"
    write_python_files(page, tmp_path)
    with serving(tmp_path, "kitchen:app") as url:
        _, *names = write_python_files(page, tmp_path, url)
        said = {
            name: subprocess.run(
                [sys.executable, name], cwd=tmp_path, capture_output=True, text=True, check=True
            ).stdout.splitlines()
            for name in names
        }
    assert said["total.py"] == ["551", "negative-price - -1 cents is no price"]
    assert said["total_async.py"] == ["[0, 2, 4, 6, 8]"]
    *events, result = said["follow.py"]
    assert [line.split()[0] for line in events] == [str(n + 1) for n in range(len(events))]
    assert result == "630"
    assert said["many.py"] == ["4950", "100"]


def test_command_line(tmp_path: Path) -> None:
    page = ROOT / "docs/how-to/command-line.md"
    write_python_files(README, tmp_path)
    (session,) = [block.text for block in blocks(page) if block.language == "console"]
    command, printed = session.removeprefix("$ ").split("\n", 1)
    with serving(tmp_path, "tasks:app") as url:
        assert run_shell(command, tmp_path, url) == printed
        for block in blocks(page):
            if block.language == "sh":
                said = run_shell(block.text, tmp_path, url)
                assert "2030-02" in said or "queue 'default' is paused" in said
    assert json.loads((tmp_path / "report.json").read_text())["month"] == "2030-02"


def run_shell(commands: str, folder: Path, url: str) -> str:
    """Run commands of the documentation in a shell that stops at the first that fails."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    ended = subprocess.run(
        ["sh", "-e", "-c", commands],
        cwd=folder,
        env={**os.environ, "PATH": path, "COATCHECK_URL": url},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_the_python_reference(tmp_path: Path) -> None:
    write_python_files(ROOT / "docs/reference/python.md", tmp_path)
    with serving(tmp_path, "everything:app") as url, Client(url) as client:
        handle = client.submit("convert", "some/path")
        assert handle.result() == 9
        assert handle.job["progress"]["message"] == "half way"


def test_test_your_jobs(tmp_path: Path) -> None:
    write_python_files(ROOT / "docs/how-to/test-your-jobs.md", tmp_path)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    tested = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert tested.returncode == 0, tested.stdout
    assert "8 passed" in tested.stdout


def test_the_job_of_the_http_reference_has_the_shape_of_a_real_one(tmp_path: Path) -> None:
    (sample,) = [b for b in blocks(ROOT / "docs/reference/http.md") if b.language == "json"]
    write_python_files(README, tmp_path)
    with serving(tmp_path, "tasks:app") as url, Client(url) as client:
        # After it has finished: only queued jobs have a position.
        real = client.wait(client.submit("report", "2030-01").id)
    assert list(json.loads(sample.text)) == list(real)


def test_isolation(tmp_path: Path) -> None:
    write_python_files(ROOT / "docs/how-to/isolation.md", tmp_path)
    settings = {"COATCHECK_GRACE_S": "0.1"}
    with serving(tmp_path, "isolated:app", **settings) as url, Client(url) as client:
        assert client.run("convert", 0.01) == "converted"
        late = client.wait(client.submit("convert", 3600).id)
        assert (late["state"], late["reason"]) == ("failed", "timeout")
        assert client.run("measure", 100) == 100_000_000
        large = client.wait(client.submit("measure", 500).id)
        assert large["error"]["code"] == "out-of-memory"
        assert client.run("fragile") == 2


def test_artifacts(tmp_path: Path) -> None:
    page = ROOT / "docs/how-to/artifacts.md"
    write_python_files(page, tmp_path)
    (command,) = [block.text for block in blocks(page) if block.language == "sh"]
    with serving(tmp_path, "reports:app") as url, Client(url) as client:
        write_python_files(page, tmp_path, url)
        said = subprocess.run(
            [sys.executable, "fetch.py"], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        job = client.list(kind="table").jobs[0]["id"]
        address = command.replace("http://127.0.0.1:8080", url)
        run_shell(address.replace("01M7GDTNAQ55VVM48585MMPRGK", job), tmp_path / "data", url)
    table = (tmp_path / "squares.csv").read_bytes()
    assert table.splitlines()[-1] == b"999,998001"
    assert said.stdout.splitlines() == [
        f"squares.csv text/csv {len(table)}",
        "all is well in 2030-01",
    ]
    assert (tmp_path / "data/squares.csv").read_bytes() == table


def test_schedules(tmp_path: Path) -> None:
    page = ROOT / "docs/how-to/schedules.md"
    write_python_files(page, tmp_path)
    with serving(tmp_path, "nightly:app") as url, Client(url) as client:
        steering, making, trying = (b.text for b in blocks(page) if b.language == "sh")
        said = run_shell(steering, tmp_path, url)
        assert "30 2 * * * Europe/Berlin" in said
        assert "every 15m" in said
        assert said.count("02:30:00 +0") == 3
        assert "schedule refresh is resumed" in said
        [job] = client.list(labels={"schedule": "nightly"}).jobs
        assert client.handle(job["id"]).result() == "the report for Berlin"
        assert job["id"] in said
        assert "schedule weekly is deleted" in run_shell(making, tmp_path, url)
        assert run_shell(trying, tmp_path, url).count(" Sun 20") == 10
        declared = {schedule["name"]: schedule["declared"] for schedule in client.schedules()}
        assert declared == {"nightly": True, "refresh": True}


def test_the_nightly_schedule_of_the_examples(tmp_path: Path) -> None:
    example = ROOT / "examples/nightly_schedule.py"
    with serving(tmp_path, f"{example}:app") as url, Client(url) as client:
        said = run_shell(f"{sys.executable} {example}", tmp_path, url)
        assert "nightly-report: 30 2 * * *, next at " in said
        assert "heartbeat: every 1 s, next at " in said
        assert "now, without waiting: the report for Berlin" in said
        while client.schedule("heartbeat")["last_job"] is None:
            client.run("heartbeat")
        beat = client.handle(client.schedule("heartbeat")["last_job"])
        assert beat.result().endswith("+00:00")
        assert beat.job["labels"] == {"schedule": "heartbeat"}


def test_uploads(tmp_path: Path) -> None:
    page = ROOT / "docs/how-to/uploads.md"
    write_python_files(page, tmp_path)
    (commands,) = [block.text for block in blocks(page) if block.language == "sh"]
    with serving(tmp_path, "scans:app") as url, Client(url) as client:
        write_python_files(page, tmp_path, url)
        said = subprocess.run(
            [sys.executable, "hand_in.py"], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        assert said.stdout.splitlines() == ["1"]
        answers = run_shell(
            commands.replace("http://127.0.0.1:8080", url).replace("curl", "curl -s"), tmp_path, url
        )
        taken: list[dict[str, str]] = []
        decoder, place = json.JSONDecoder(), 0
        while place < len(answers):
            found, place = decoder.raw_decode(answers, place)
            taken.append(found)
        assert [each["name"] for each in taken] == ["notes.zip", "notes.zip"]
        assert taken[0]["sha256"] == taken[1]["sha256"]
        named = {"archive": {"upload": taken[0]["id"]}, "ending": ".md"}
        assert client.run("count", named) == 1


def test_retention(tmp_path: Path) -> None:
    page = ROOT / "docs/how-to/retention.md"
    write_python_files(page, tmp_path)
    (command,) = [block.text for block in blocks(page) if block.language == "sh"]
    with serving(tmp_path, "ledger:app") as url, Client(url) as client:
        handle = client.submit("inspect", "some source")
        assert handle.result() == 11
        address = command.replace("http://127.0.0.1:8080", url).replace("curl", "curl -s")
        address = address.replace("01M7GDTNAQ55VVM48585MMPRGK", handle.id)
        receipt = json.loads(run_shell(address, tmp_path, url))
        assert receipt["erased"] is True
        assert receipt["removed"]["payloads"] == 1, "the input went before"
    assert b"some source" not in (tmp_path / "data/coatcheck.db").read_bytes()


def test_encryption(tmp_path: Path) -> None:
    page = ROOT / "docs/how-to/encryption.md"
    (commands,) = [block.text for block in blocks(page) if block.language == "sh"]
    make_key, export, serve = commands.splitlines()
    assert serve == "coatcheck serve tasks:app"
    write_python_files(README, tmp_path)
    setting = run_shell(f"{make_key}\n{export}\nenv | grep ENCRYPTION", tmp_path, "")
    name, _, value = setting.strip().partition("=")
    with serving(tmp_path, "tasks:app", **{name: value}) as url, Client(url) as client:
        assert client.run("report", "2030-01", 60)["month"] == "2030-01"
    found = (tmp_path / "data").rglob("*")
    kept = b"".join(path.read_bytes() for path in found if path.is_file())
    assert b"report" in kept, "the kind is in clear"
    assert b"2030-01" not in kept


def test_webhooks(tmp_path: Path) -> None:
    page = ROOT / "docs/how-to/webhooks.md"
    write_python_files(page, tmp_path)
    with serving(tmp_path, "bakery:app", COATCHECK_EGRESS_ALLOW="127.0.0.1") as url:
        write_python_files(page, tmp_path, url)
        with Client(url) as client:
            environment = {**os.environ, "WEBHOOK_SECRET": client.webhooks.secret()}
        with subprocess.Popen(
            [sys.executable, "receiver.py"],
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        ) as receiver:
            try:
                assert receiver.stdout is not None
                address = receiver.stdout.readline().strip()
                ordered = subprocess.run(
                    [sys.executable, "order.py", address],
                    cwd=tmp_path,
                    capture_output=True,
                    text=True,
                    check=True,
                )
                told = receiver.stdout.readline().split()
                assert told == ["job.succeeded", ordered.stdout.strip()]
                forged = httpx2.post(address, content=b"{}", headers={"webhook-id": "msg_1"})
                assert forged.status_code == 401
            finally:
                receiver.terminate()


def test_every_python_block_is_run() -> None:
    # shop.py needs PostgreSQL: tests/postgres/test_shop.py.
    run = {"tasks.py", "ask.py", "steering.py", "cancel.py", "everything.py", "shop.py"}
    run |= {"kitchen.py", "total.py", "total_async.py", "follow.py", "many.py"}
    run |= {"tickets.py", "gateway.py", "remote.py", "isolated.py"}
    run |= {"scans.py", "hand_in.py", "ledger.py", "limited.py", "warm.py", "pinned.py"}
    run |= {"bakery.py", "order.py", "receiver.py"}
    run |= {"billing.py", "test_billing.py", "reports.py", "fetch.py", "nightly.py"}
    run |= {"ask_too.py"}  # tests/docs/test_foreman_examples.py
    run |= {"draw.py"}  # tests/surfaces/render/drawing/test_documentation.py
    run |= {"desk.py"}  # tests/docs/test_assistant_example.py
    run |= {"hand_in_directly.py"}  # tests/blobs/test_signed.py
    run |= {"before.py", "after.py", "hook.py", "once.py"}  # tests/middleware/test_how_to.py
    # tests/docs/test_durable_examples.py
    run |= {"orders.py", "trial.py", "decide.py", "pictures.py", "invoices.py", "mend.py"}
    named = {
        block.file_name for page in PAGES for block in blocks(page) if block.language == "python"
    }
    assert named == run
