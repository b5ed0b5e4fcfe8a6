"""The addresses that `rlver ui` prints, against a server that answers as MLflow and Prefect do."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from rlver.tasks.commands.pages import deep_links
from rlver.tasks.runtime.environment import Addresses


@pytest.fixture
def server() -> Iterator[str]:
    class Both(BaseHTTPRequestHandler):
        def _say(self, value: object) -> None:
            body = json.dumps(value).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self) -> None:
            name = self.path.partition("experiment_name=")[2]
            self._say({"experiment": {"experiment_id": {"rlver": "7", "mine": "8"}[name]}})

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self._say([{"id": "f00"}])

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Both) as http:
        threading.Thread(target=http.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{http.server_port}"
        http.shutdown()


def test_links_lead_to_the_comparison_the_dialogues_and_the_last_run(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    where = Addresses(server, f"{server}/api", tmp_path)
    assert deep_links(where, {}) == [
        ("comparison", f"{server}/#/experiments/7/runs?compareRunsMode=CHART"),
        ("dialogues", f"{server}/#/experiments/7/chat-sessions"),
        ("last run", f"{server}/v2/runs/flow-run/f00"),
    ]
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "mine")
    assert "/experiments/8/" in deep_links(where, {})[0][1]


def test_servers_that_do_not_answer_give_no_links(tmp_path: Path) -> None:
    assert deep_links(Addresses("http://127.0.0.1:9", None, tmp_path), {"prefect": "http://127.0.0.1:9"}) == []
