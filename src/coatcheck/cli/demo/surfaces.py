"""The parts of `coatcheck demo` that go through the built-in surfaces, in their own words."""

from __future__ import annotations

import io
import time
import uuid
import zipfile
from collections.abc import Iterator
from importlib.metadata import metadata
from pathlib import Path
from typing import Any

import httpx2
from rich.console import Console

POLL_S = 0.1
PATIENCE_S = 60.0
# Embedding takes its time on a busy machine.
LONG_PATIENCE_S = 300.0
PAGES = (
    "docs/guarantees.md",
    *(f"docs/how-to/{name}.md" for name in ("retention", "resume-and-fork", "keys-and-tenants")),
)
QUESTION = "What happens to a job when its worker dies?"
DIAGRAM = """flowchart LR
  You -- "POST /render" --> API
  API -- "202 and an id" --> You
  API --> Job[(Job on disk)]
  Job --> Worker
  Worker -- picture --> Job
"""
PICTURE = Path("data") / "demo-diagram.svg"
TASK = {"id": "demo", "name": "Who am I", "command": "uname -srm"}


class DemoFailed(Exception):
    """A surface did not answer as it should."""


def show_diagram(console: Console, url: str) -> None:
    """Draw a diagram, follow its job, and save the picture."""
    with httpx2.Client(base_url=url, timeout=PATIENCE_S) as http:
        job = _ask(http, "POST", "/render", {"source": DIAGRAM, "format": "mermaid"})
        console.print(f"\nPOST /render  ->  202, [bold]{job['jobId']}[/bold]: a diagram")
        ended = _follow(console, http, job["statusUrl"], ("completed", "failed"))
        if ended["status"] != "completed":
            raise DemoFailed(ended["error"])
        picture = http.get(ended["result"]["url"])
        PICTURE.parent.mkdir(exist_ok=True)
        PICTURE.write_bytes(picture.content)
        size = len(picture.content)
        console.print(f"GET {ended['result']['url']}  ->  {size:,} bytes, saved as {PICTURE}")
        console.print(f"  look at it: {url}{ended['result']['url']}")


def show_command(console: Console, url: str) -> None:
    """Run a command in the sandbox, and show what it says."""
    with httpx2.Client(base_url=url, timeout=PATIENCE_S) as http:
        _ask(http, "PUT", "/api/tasks", TASK)
        path = f"/api/tasks/{TASK['id']}/executions"
        begun = _ask(http, "PUT", f"{path}?async=true")
        console.print(f"\nPUT {path}  ->  202, {TASK['command']}: a command, in a sandbox")
        ended = _follow(console, http, begun["links"]["self"], ("SUCCEEDED", "FAILED", "TIMEOUT"))
        if ended["status"] != "SUCCEEDED":
            raise DemoFailed(ended["stderr"])
        console.print(f"  {ended['stdout'].strip()}", markup=False)


def show_graph(console: Console, url: str) -> None:
    """Have a graph made of the code of this very command, by handing it in and asking again."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for module in sorted(Path(__file__).parents[1].glob("*.py")):
            archive.write(module, f"cli/{module.name}")
    path, key = "/v1/graphs/call", {"Idempotency-Key": uuid.uuid4().hex}
    with httpx2.Client(base_url=url, timeout=PATIENCE_S) as http:
        answer = http.post(path, headers=key, files={"file": ("cli.zip", packed.getvalue())})
        if answer.status_code >= 300:
            raise DemoFailed(f"POST {path}: {answer.status_code} {answer.text[:200]}")
        console.print(
            f"\nPOST {path}  ->  {answer.status_code}: the code of this command, in a zip"
        )
        until = time.monotonic() + PATIENCE_S
        with console.status("…") as status:
            while answer.status_code == 202 and time.monotonic() < until:
                status.update(f"POST {path}  ->  {answer.json()['status']}")
                time.sleep(POLL_S)
                answer = http.post(path, headers=key)
        graph = answer.json()
        if graph["status"] != "completed":
            raise DemoFailed(graph.get("error") or f"the graph is {graph['status']}")
        found = graph["result"]
        calls = sum(edge["kind"] == "calls" for edge in found["edges"])
        console.print(
            f"POST {path}  ->  {answer.status_code}, "
            f"{len(found['nodes']):,} nodes and {calls:,} calls; nothing of the code is kept"
        )


def show_search(console: Console, url: str) -> None:
    """Bring pages about this very project into a collection, and ask them a question."""
    files = [("files", (name, text)) for name, text in _own_pages()]
    asked = {"q": QUESTION, "k": "1"}
    with httpx2.Client(base_url=url, timeout=PATIENCE_S) as http:
        answer = http.post("/v1/ingest", data={"collection": "coatcheck"}, files=files)
        if answer.status_code != 202:
            raise DemoFailed(f"POST /v1/ingest: {answer.status_code} {answer.text[:200]}")
        console.print(f"\nPOST /v1/ingest  ->  202: {len(files)} pages of our own documentation")
        job = answer.headers["location"]
        card = _follow_card(console, http, f"{job}/card")
        if card["state"] != "succeeded":
            raise DemoFailed(card["message"])
        path = "/v1/collections/coatcheck/search"
        [best] = _ask(http, "GET", f"{path}?{httpx2.QueryParams(asked)}")["results"]
        console.print(f"GET {path}?q={QUESTION}", markup=False)
        words = " ".join(best["text"].split())
        console.print(f"  {best['document']['name']}: {words[:300]}", markup=False)


def _own_pages() -> Iterator[tuple[str, str]]:
    """Yield pages of the documentation, where they are beside us; else what the package says."""
    root = Path(__file__).parents[4]
    pages = [root / page for page in PAGES]
    if all(page.is_file() for page in pages):
        for page in pages:
            yield page.relative_to(root).as_posix(), page.read_text(encoding="utf-8")
    else:
        yield "README.md", metadata("coatcheck").get_payload()  # type: ignore[attr-defined]


def _follow_card(console: Console, http: httpx2.Client, path: str) -> dict[str, Any]:
    until = time.monotonic() + LONG_PATIENCE_S
    with console.status("…") as status:
        while time.monotonic() < until:
            card = _ask(http, "GET", path)
            status.update(f"GET {path}  ->  {card['state']} {card['message'] or ''}")
            if card["state"] in ("succeeded", "failed", "cancelled"):
                console.print(f"GET {path}  ->  {card['state']}, {card['percent']}%")
                return card
            time.sleep(POLL_S)
    raise DemoFailed(f"{path} has not ended in {LONG_PATIENCE_S:g} seconds")


def show_slow_service(console: Console, url: str) -> None:
    """Call a slow service through the proxy, and come back for its answer."""
    with httpx2.Client(base_url=url, timeout=PATIENCE_S) as http:
        answer = http.post("/reports/2030-01", json={"format": "pdf"})
        if answer.status_code != 202:
            raise DemoFailed(f"POST /reports/2030-01: {answer.status_code} {answer.text[:200]}")
        job = answer.headers["location"]
        console.print("\nPOST /reports/2030-01  ->  202: a service that takes longer than a caller")
        with console.status(f"GET {job}/result"):
            kept = http.get(f"{job}/result", params={"wait": "60"})
        console.print(f"GET {job}/result  ->  {kept.status_code}, as the service answered it:")
        if kept.status_code != 201:
            raise DemoFailed(kept.text[:200])
        console.print(f"  {kept.text}", markup=False)


def show_model(console: Console, url: str) -> None:
    """Ask a model behind Ollama something, through the queue before it."""
    with httpx2.Client(base_url=url, timeout=PATIENCE_S) as http:
        models = _ask(http, "GET", "/api/tags")["models"]
        if not models:
            console.print("\n[yellow]foreman has nobody to ask[/yellow]: Ollama has no models yet")
            return
        asked = {"model": models[0]["name"], "messages": [{"role": "user", "content": "Hello!"}]}
        job = _ask(http, "POST", "/jobs", asked)
        console.print(f"\nPOST /jobs  ->  202, [bold]{job['job_id']}[/bold]: {asked['model']}")
        ended = _follow(console, http, f"/jobs/{job['job_id']}", ("done", "failed"), "state")
        if ended["state"] != "done":
            raise DemoFailed(ended["error"])
        console.print(f"  {ended['result']['message']['content'][:200]}", markup=False)


def _follow(
    console: Console,
    http: httpx2.Client,
    path: str,
    ends: tuple[str, ...],
    field: str = "status",
) -> dict[str, Any]:
    until = time.monotonic() + PATIENCE_S
    with console.status("…") as status:
        while time.monotonic() < until:
            shown = _ask(http, "GET", path)
            status.update(f"GET {path}  ->  {shown[field]}")
            if shown[field] in ends:
                console.print(f"GET {path}  ->  {shown[field]}")
                return shown
            time.sleep(POLL_S)
    raise DemoFailed(f"{path} has not ended in {PATIENCE_S:g} seconds")


def _ask(http: httpx2.Client, method: str, path: str, body: Any = None) -> dict[str, Any]:
    answer = http.request(method, path, json=body)
    if answer.status_code >= 300:
        raise DemoFailed(f"{method} {path}: {answer.status_code} {answer.text[:200]}")
    return dict(answer.json())
