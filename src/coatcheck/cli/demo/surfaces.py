"""The demos of the built-in surfaces, over their own HTTP APIs."""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
import threading
import time
import uuid
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import metadata
from pathlib import Path
from typing import Any

import httpx2
from rich.console import Console

SERVICE_DELAY_S = 1.5
RULE = """[[proxy]]
name = "reports"
match = "POST /reports/*"
target = "http://127.0.0.1:{port}"
wait = "200ms"
"""
POLL_S = 0.1
TIMEOUT_S = 60.0
# Embedding is slow on a busy machine.
INGEST_TIMEOUT_S = 300.0
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
    """A surface returned an unexpected response."""


def demo_diagram(console: Console, url: str) -> None:
    """Render a diagram, follow its job, and save the image."""
    with httpx2.Client(base_url=url, timeout=TIMEOUT_S) as http:
        job = _request(http, "POST", "/render", {"source": DIAGRAM, "format": "mermaid"})
        console.print(f"\nPOST /render  ->  202, [bold]{job['jobId']}[/bold]: a diagram")
        finished = _follow(console, http, job["statusUrl"], ("completed", "failed"))
        if finished["status"] != "completed":
            raise DemoFailed(finished["error"])
        picture = http.get(finished["result"]["url"])
        PICTURE.parent.mkdir(exist_ok=True)
        PICTURE.write_bytes(picture.content)
        size = len(picture.content)
        console.print(f"GET {finished['result']['url']}  ->  {size:,} bytes, saved as {PICTURE}")
        console.print(f"  open it: {url}{finished['result']['url']}")


def demo_command(console: Console, url: str) -> None:
    """Run a command in the sandbox, and show its output."""
    with httpx2.Client(base_url=url, timeout=TIMEOUT_S) as http:
        _request(http, "PUT", "/api/tasks", TASK)
        path = f"/api/tasks/{TASK['id']}/executions"
        started = _request(http, "PUT", f"{path}?async=true")
        console.print(f"\nPUT {path}  ->  202, {TASK['command']}: a command, in a sandbox")
        finished = _follow(
            console, http, started["links"]["self"], ("SUCCEEDED", "FAILED", "TIMEOUT")
        )
        if finished["status"] != "SUCCEEDED":
            raise DemoFailed(finished["stderr"])
        console.print(f"  {finished['stdout'].strip()}", markup=False)


def demo_graph(console: Console, url: str) -> None:
    """Make a graph of this command's own code: submit it, then repeat the request."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for module in sorted(Path(__file__).parents[1].glob("*.py")):
            archive.write(module, f"cli/{module.name}")
    path, key = "/v1/graphs/call", {"Idempotency-Key": uuid.uuid4().hex}
    with httpx2.Client(base_url=url, timeout=TIMEOUT_S) as http:
        response = http.post(path, headers=key, files={"file": ("cli.zip", packed.getvalue())})
        if response.status_code >= 300:
            raise DemoFailed(f"POST {path}: {response.status_code} {response.text[:200]}")
        console.print(
            f"\nPOST {path}  ->  {response.status_code}: the code of this command, as a zip"
        )
        until = time.monotonic() + TIMEOUT_S
        with console.status("…") as status:
            while response.status_code == 202 and time.monotonic() < until:
                status.update(f"POST {path}  ->  {response.json()['status']}")
                time.sleep(POLL_S)
                response = http.post(path, headers=key)
        graph = response.json()
        if graph["status"] != "completed":
            raise DemoFailed(graph.get("error") or f"the graph is {graph['status']}")
        found = graph["result"]
        calls = sum(edge["kind"] == "calls" for edge in found["edges"])
        console.print(
            f"POST {path}  ->  {response.status_code}, "
            f"{len(found['nodes']):,} nodes and {calls:,} calls; no code is stored"
        )


def demo_search(console: Console, url: str) -> None:
    """Ingest pages of this project's documentation, and search them."""
    files = [("files", (name, text)) for name, text in _own_pages()]
    query = {"q": QUESTION, "k": "1"}
    with httpx2.Client(base_url=url, timeout=TIMEOUT_S) as http:
        response = http.post("/v1/ingest", data={"collection": "coatcheck"}, files=files)
        if response.status_code != 202:
            raise DemoFailed(f"POST /v1/ingest: {response.status_code} {response.text[:200]}")
        console.print(f"\nPOST /v1/ingest  ->  202: {len(files)} pages of our own documentation")
        job = response.headers["location"]
        card = _follow_card(console, http, f"{job}/card")
        if card["state"] != "succeeded":
            raise DemoFailed(card["message"])
        path = "/v1/collections/coatcheck/search"
        [best] = _request(http, "GET", f"{path}?{httpx2.QueryParams(query)}")["results"]
        console.print(f"GET {path}?q={QUESTION}", markup=False)
        words = " ".join(best["text"].split())
        console.print(f"  {best['document']['name']}: {words[:300]}", markup=False)


def _own_pages() -> Iterator[tuple[str, str]]:
    """Yield documentation pages from the source tree, or else the package's README."""
    root = Path(__file__).parents[4]
    pages = [root / page for page in PAGES]
    if all(page.is_file() for page in pages):
        for page in pages:
            yield page.relative_to(root).as_posix(), page.read_text(encoding="utf-8")
    else:
        yield "README.md", metadata("coatcheck").get_payload()  # type: ignore[attr-defined]


def _follow_card(console: Console, http: httpx2.Client, path: str) -> dict[str, Any]:
    until = time.monotonic() + INGEST_TIMEOUT_S
    with console.status("…") as status:
        while time.monotonic() < until:
            card = _request(http, "GET", path)
            status.update(f"GET {path}  ->  {card['state']} {card['message'] or ''}")
            if card["state"] in ("succeeded", "failed", "cancelled"):
                console.print(f"GET {path}  ->  {card['state']}, {card['percent']}%")
                return card
            time.sleep(POLL_S)
    raise DemoFailed(f"{path} is not finished after {INGEST_TIMEOUT_S:g} seconds")


def demo_slow_service(console: Console, url: str) -> None:
    """Call a slow service through the proxy, and fetch its response."""
    with httpx2.Client(base_url=url, timeout=TIMEOUT_S) as http:
        response = http.post("/reports/2030-01", json={"format": "pdf"})
        if response.status_code != 202:
            raise DemoFailed(f"POST /reports/2030-01: {response.status_code} {response.text[:200]}")
        job = response.headers["location"]
        console.print(
            "\nPOST /reports/2030-01  ->  202: the service is slower than the caller's wait"
        )
        with console.status(f"GET {job}/result"):
            result = http.get(f"{job}/result", params={"wait": "60"})
        console.print(f"GET {job}/result  ->  {result.status_code}, the response of the service:")
        if result.status_code != 201:
            raise DemoFailed(result.text[:200])
        console.print(f"  {result.text}", markup=False)


def demo_model(console: Console, url: str) -> None:
    """Send a prompt to a model through the queue in front of Ollama."""
    with httpx2.Client(base_url=url, timeout=TIMEOUT_S) as http:
        models = _request(http, "GET", "/api/tags")["models"]
        if not models:
            console.print("\n[yellow]foreman has no model[/yellow]: Ollama has no models")
            return
        prompt = {"model": models[0]["name"], "messages": [{"role": "user", "content": "Hello!"}]}
        job = _request(http, "POST", "/jobs", prompt)
        console.print(f"\nPOST /jobs  ->  202, [bold]{job['job_id']}[/bold]: {prompt['model']}")
        finished = _follow(console, http, f"/jobs/{job['job_id']}", ("done", "failed"), "state")
        if finished["state"] != "done":
            raise DemoFailed(finished["error"])
        console.print(f"  {finished['result']['message']['content'][:200]}", markup=False)


def _follow(
    console: Console,
    http: httpx2.Client,
    path: str,
    ends: tuple[str, ...],
    field: str = "status",
) -> dict[str, Any]:
    until = time.monotonic() + TIMEOUT_S
    with console.status("…") as status:
        while time.monotonic() < until:
            shown = _request(http, "GET", path)
            status.update(f"GET {path}  ->  {shown[field]}")
            if shown[field] in ends:
                console.print(f"GET {path}  ->  {shown[field]}")
                return shown
            time.sleep(POLL_S)
    raise DemoFailed(f"{path} is not finished after {TIMEOUT_S:g} seconds")


def _request(http: httpx2.Client, method: str, path: str, body: Any = None) -> dict[str, Any]:
    response = http.request(method, path, json=body)
    if response.status_code >= 300:
        raise DemoFailed(f"{method} {path}: {response.status_code} {response.text[:200]}")
    return dict(response.json())


class _Service(BaseHTTPRequestHandler):
    """Responds to every POST after a delay."""

    def do_POST(self) -> None:
        """Create a report, slowly."""
        self.rfile.read(int(self.headers.get("content-length") or 0))
        time.sleep(SERVICE_DELAY_S)
        report = {"report": self.path.rpartition("/")[2], "pages": 42}
        body = json.dumps(report).encode()
        self.send_response(201)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@contextlib.contextmanager
def slow_service() -> Iterator[Path]:
    """Run the service; yield a config file with its proxy rule."""
    with (
        ThreadingHTTPServer(("127.0.0.1", 0), _Service) as server,
        tempfile.TemporaryDirectory(prefix="coatcheck-demo-") as folder,
    ):
        config = Path(folder) / "coatcheck.toml"
        config.write_text(RULE.format(port=server.server_port))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield config
        finally:
            server.shutdown()
