"""A policy behind a chat endpoint that says fixed replies in turn, and the commands that talk with a policy there: verifiers' own and ours."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from rlver.components.domain.transcript import Dialogue

ROOT = Path(__file__).parents[3]
REPLIES = ("That sounds heavy. What hurts most about it?", "You tried so hard, and nobody noticed.", "Just calm down.", "I am here.")
MODEL = "m"
PATH = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))  # uv may lie beside the interpreter
HAS_UV = shutil.which("uv", path=PATH) is not None


def reply(turn: int) -> str:
    """With its thought; `turn` from 0."""
    return f"<think>turn {turn}</think>{REPLIES[turn % len(REPLIES)]}"


@dataclass
class Endpoint:
    """Its address, and the bodies of all requests for a reply."""

    url: str
    asked: list[dict[str, Any]] = field(default_factory=list)


@contextmanager
def replying() -> Iterator[Endpoint]:
    """A chat endpoint that says the replies in turn, whatever it is told; whole or as a stream."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer("application/json", json.dumps({"object": "list", "data": [{"id": MODEL, "object": "model"}]}))

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            endpoint.asked.append(asked)
            said = {"role": "assistant", "content": reply(sum(one["role"] == "assistant" for one in asked["messages"]))}
            about: dict[str, Any] = {"id": "x", "created": 0, "model": asked["model"]}
            usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
            choice: dict[str, Any] = {"index": 0, "finish_reason": "stop"}
            if asked.get("stream"):
                pieces: list[dict[str, Any]] = [{"choices": [choice | {"delta": said}]}, {"choices": [], "usage": usage}]
                lines = [json.dumps({**about, "object": "chat.completion.chunk", **piece}) for piece in pieces]
                self._answer("text/event-stream", "".join(f"data: {line}\n\n" for line in [*lines, "[DONE]"]))
            else:
                whole = {**about, "object": "chat.completion", "choices": [choice | {"message": said}], "usage": usage}
                self._answer("application/json", json.dumps(whole))

        def _answer(self, kind: str, text: str) -> None:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    endpoint = Endpoint(f"http://127.0.0.1:{server.server_port}/v1")
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    try:
        yield endpoint
    finally:
        server.shutdown()
        server.server_close()


def vf_eval(project: Path, url: str, name: str, *more: str) -> list[dict[str, Any]]:
    """The traces of verifiers' evaluation command, of the policy at `url` with the people in people.jsonl; with our environment."""
    told = [
        "--model", MODEL, "--client.base-url", url, "--client.api-key-var", "NO_KEY", "--env.taskset.personas", "people.jsonl",
        "-o", "out", "--run.dir", name, "--no-push", "--no-rich",
    ]  # fmt: skip
    paths = os.pathsep.join(map(str, (ROOT / "packages" / "rlver-verifiers", ROOT)))
    _run(project, [str(Path(sys.executable).parent / "vf-eval"), "rlver-verifiers", *told, *more], PYTHONPATH=paths, NO_KEY="none")
    episodes = [json.loads(line) for line in (project / "out" / name / "traces.jsonl").read_text().splitlines()]
    traces = [trace for episode in episodes for trace in episode["traces"]]
    assert all(trace["ok"] for trace in traces), [trace["errors"] for trace in traces]
    return traces


def dialogue_of(trace: dict[str, Any]) -> Dialogue:
    return Dialogue.model_validate(trace["info"]["rlver"])


def converse(project: Path, url: str, name: str, *more: str) -> list[Dialogue]:
    """What `rlver converse` writes, of the same policy with the same people."""
    told = ["--policy", f"vllm:{url}", "--personas", "people.jsonl", "--repeats", "1", "-o", f"{name}.jsonl", *more]
    _run(project, [sys.executable, "-m", "rlver.flows.cli", "converse", *told], PYTHONPATH=str(ROOT))
    return [Dialogue.model_validate_json(line) for line in (project / f"{name}.jsonl").read_text().splitlines()]


def _run(project: Path, command: list[str], **variables: str) -> None:
    surroundings = {**os.environ, "PATH": PATH, **variables}
    done = subprocess.run(command, cwd=project, env=surroundings, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
