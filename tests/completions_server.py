"""A real /v1/completions over HTTP, on loopback: it computes a model's log-probabilities for prompts given as tokens, as vLLM does."""

from __future__ import annotations

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer


@dataclass
class CompletionsServer:
    """`behaviour`: well; no_echo, which gives the log-probability of the new token only; elsewhere, which names another address."""

    name: str
    behaviour: str = "well"
    failures: int = 0  # so many requests are answered with 503 first
    elsewhere: str = ""
    bytes_a_token: int = 0  # beside what is wanted of a prompt's token
    url: str = ""
    bodies: list[dict[str, Any]] = field(default_factory=list)
    authorizations: list[str | None] = field(default_factory=list)


def _choice(model: Any, tokenizer: Any, body: dict[str, Any], index: int, prompt: list[int], echo: bool) -> dict[str, Any]:
    ids = torch.tensor([prompt])
    with torch.no_grad():
        log_p = torch.log_softmax(model(ids).logits[0].float(), dim=-1)
        made = model.generate(ids, max_new_tokens=min(body["max_tokens"], 8), do_sample=False, pad_token_id=0)[0, len(prompt) :]
    following = [*prompt[1:], int(made[0])]
    chosen = [log_p[place, token].item() for place, token in enumerate(following)]
    tops = [{"own": value, "top": log_p[place].max().item()} for place, value in enumerate(chosen)]
    said = (
        {"token_logprobs": [None, *chosen], "top_logprobs": [None, *tops]}
        if echo
        else {"token_logprobs": chosen[-1:], "top_logprobs": tops[-1:]}
    )
    return {"index": index, "text": tokenizer.decode(made, skip_special_tokens=True), "logprobs": said if body.get("logprobs") else None}


@contextmanager
def completions_server(folder: Path, **how: Any) -> Generator[CompletionsServer, None, None]:
    server = CompletionsServer(**{"name": str(folder), **how})
    model, tokenizer = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32), AutoTokenizer.from_pretrained(folder)

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

        def _say(self, status: int, content: Any, headers: tuple[tuple[str, str], ...] = ()) -> None:
            body = json.dumps(content).encode()
            self.send_response(status)
            for name, value in (("Content-Length", str(len(body))), ("Content-Type", "application/json"), *headers):
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self) -> None:
            server.authorizations.append(self.headers["Authorization"])
            self._say(200, {"data": [{"id": server.name}]})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            server.bodies.append(body)
            server.authorizations.append(self.headers["Authorization"])
            if server.failures > 0:
                server.failures -= 1
                return self._say(503, {"error": {"message": f"busy, you sent {self.headers['Authorization']}"}})
            if server.behaviour == "elsewhere":
                return self._say(307, {}, (("Location", f"{server.elsewhere}/completions"),))
            echo = bool(body.get("echo")) and server.behaviour != "no_echo"
            choices = [_choice(model, tokenizer, body, index, prompt, echo) for index, prompt in enumerate(body["prompt"])]
            beside = "x" * (server.bytes_a_token * sum(map(len, body["prompt"])))
            return self._say(200, {"choices": choices[::-1], "beside": beside})

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.url = f"http://127.0.0.1:{http.server_address[1]}/v1"
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        http.shutdown()
        thread.join()
        http.server_close()
