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

SCORED = [("a", "a1", "FINISHED"), ("a", "a2", "FINISHED"), ("b", "b1", "FINISHED"), ("b", "b2", "FAILED")]  # the oldest first

TAGS: list[dict[str, str]] = []  # that the server was asked to set


@pytest.fixture
def server() -> Iterator[str]:
    TAGS.clear()

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
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if "set-experiment-tag" in self.path:
                TAGS.append(asked)
                return self._say({})
            wanted = SCORED[::-1] if "start_time DESC" in asked.get("order_by", ()) else SCORED
            scored = [
                {"info": {"run_id": run}, "data": {"tags": [{"key": "variant", "value": name}]}}
                for name, run, status in wanted
                if status == "FINISHED" or "status = 'FINISHED'" not in asked.get("filter", "")
            ]
            of_one = [run for run in scored if run["info"]["run_id"].startswith("a")]  # type: ignore[index]
            self._say({"runs": scored if asked["experiment_ids"] == ["7"] else of_one} if "runs/search" in self.path else [{"id": "f00"}])

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Both) as http:
        threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield f"http://127.0.0.1:{http.server_port}"
        http.shutdown()


def test_links_lead_to_the_comparison_the_dialogues_and_the_last_run(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    where = Addresses(server, f"{server}/api", tmp_path)
    assert deep_links(where, {}) == [
        ("comparison", f"{server}/#/experiments/7/runs?compareRunsMode=CHART&viewStateShareKey=rlver"),
        ("dialogues", f"{server}/#/experiments/7/traces?groupBy=session"),
        ("last run", f"{server}/v2/runs/flow-run/f00"),
    ]
    (tag,) = TAGS
    view = json.loads(tag["value"])
    assert (tag["experiment_id"], tag["key"]) == ("7", "mlflow.sharedViewState.rlver")
    assert view["searchFilter"] == "attributes.run_id IN ('b1', 'a2')", "the newest of each variant that was scored to the end"
    assert "emotion_mean" in view["chartsSearchFilter"] and "emotion_mean" in view["orderByKey"]
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "mine")
    assert deep_links(where, {})[0][1] == f"{server}/#/experiments/8/runs?compareRunsMode=CHART", "one variant has nothing beside it"


def test_servers_that_do_not_answer_give_no_links(tmp_path: Path) -> None:
    assert deep_links(Addresses("http://127.0.0.1:9", None, tmp_path), {"prefect": "http://127.0.0.1:9"}) == []
