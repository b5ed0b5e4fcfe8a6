"""A real HTTP/1.1 server on a loopback port that keeps weights and a pause as vLLM does, and samples what its script says."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from rlver.components.policy.weights import version_of

Body = dict[str, Any]
Answer = tuple[int, Any]  # status, JSON


END = 0  # of a turn


@dataclass
class ScriptedVllm:
    """`generate` makes the answer to a request for a sample; `take` that of the worker to (folder, version)."""

    generate: Callable[[Body, ScriptedVllm], Answer]
    take: Callable[[str, str], Answer] = lambda folder, version: (200, {"results": [version]})
    here: Callable[[str], str] = lambda folder: version_of(Path(folder))  # what a worker finds there
    adapters: dict[str, str] = field(default_factory=dict)  # name -> folder, of those that are loaded
    cut: int = 0  # so many of the first samples' connections are cut without an answer
    url: str = ""
    version: str = "default"
    paused: bool = False
    calls: list[str] = field(default_factory=list)
    asked: list[Body] = field(default_factory=list)
    at_once: int = 0
    most_at_once: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, path: str, query: dict[str, list[str]], body: Body) -> Answer | None:
        """None: the connection is cut."""
        with self.lock:
            self.calls.append(f"{path} {query['mode'][0]}" if "mode" in query else f"{path} {body.get('new_version', '')}".strip())
        if path == "/inference/v1/generate" and body.get("model", "base") not in ("base", *self.adapters):
            return 404, {"error": {"message": f"The model `{body['model']}` does not exist."}}
        if path == "/inference/v1/generate":
            with self.lock:
                self.asked.append(body)
                if len(self.asked) <= self.cut:
                    return None
                self.at_once += 1
                self.most_at_once = max(self.most_at_once, self.at_once)
            try:
                return self.generate(body, self)
            finally:
                with self.lock:
                    self.at_once -= 1
        if path in ("/pause", "/resume"):
            self.paused = path == "/pause"
        elif path == "/update_weight_version":
            self.version = body["new_version"]
        elif path == "/collective_rpc":
            assert self.paused
            if body["method"] == "version_here":
                return 200, {"results": [self.here(*body["args"])]}
            assert body["method"] == "take_weights"
            return self.take(*body["args"])
        elif path == "/v1/models":
            loaded = [{"id": name, "root": folder, "parent": "base"} for name, folder in self.adapters.items()]
            return 200, {"data": [{"id": "base", "root": "base", "parent": None}, *loaded]}
        elif path == "/v1/load_lora_adapter":
            assert self.paused
            if not Path(body["lora_path"], "adapter_config.json").is_file():
                return 500, {"error": {"message": f"No adapter found for {body['lora_path']}"}}
            self.adapters[body["lora_name"]] = body["lora_path"]
            return 200, b"Success: LoRA adapter added successfully."
        elif path == "/v1/unload_lora_adapter":
            assert self.paused
            return (200, b"Success: removed.") if self.adapters.pop(body["lora_name"], None) else (404, {})
        elif path == "/reset_prefix_cache":
            return 200, {"success": True}
        elif path == "/weight_info":
            return 200, {"weight_version": self.version}
        elif path == "/is_paused":
            return 200, {"is_paused": self.paused}
        else:
            return 404, {}
        return 200, {}


def sampled(token_ids: list[int], logprobs: list[float], versions: list[str], reason: str = "stop") -> Answer:
    """An answer in vLLM's own words."""
    spans = [{"version": version, "start": place, "end": place + 1} for place, version in enumerate(versions)]
    content = [{"token_id": token, "logprob": logprob, "top_logprobs": []} for token, logprob in zip(token_ids, logprobs, strict=True)]
    choice = {"index": 0, "token_ids": token_ids, "logprobs": {"content": content}, "finish_reason": reason, "weight_versions": spans}
    return 200, {"request_id": "r", "choices": [choice]}


def says_two(body: Body, vllm: ScriptedVllm) -> Answer:
    """A token and the end of a turn, with the present weights."""
    return sampled([9, END], [-0.5, -0.25], [vllm.version])


@contextmanager
def serving(vllm: ScriptedVllm) -> Iterator[ScriptedVllm]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            at = urlsplit(self.path)
            content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            answer = vllm.answer(at.path, parse_qs(at.query), json.loads(content) if content else {})
            if answer is None:
                self.close_connection = True
                return
            status, value = answer
            said = value if isinstance(value, bytes) else json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        do_GET = do_POST

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    vllm.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield vllm
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
