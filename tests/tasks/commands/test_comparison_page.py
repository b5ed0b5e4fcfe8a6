"""The comparison that `rlver ui` links to, in a real Chromium on MLflow's own pages over SQLite."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from mlflow import MlflowClient

from benchmarks.chromium import Chromium, installed
from rlver.tasks.commands.pages import deep_links
from rlver.tasks.runtime import servers
from rlver.tasks.runtime.environment import Addresses

pytestmark = [pytest.mark.slow, pytest.mark.skipif(installed() is None, reason="needs chromium")]

SCORES = (("base", 99.0), ("grpo-think", 77.7), ("base", 22.3), ("ppo", 60.1))  # the oldest first
SHOWN = "document.body.innerText"
DRAWN = "[...document.querySelectorAll('.main-svg text')].map((one) => one.textContent)"


@pytest.fixture
def server(tracking_uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    client = MlflowClient(tracking_uri)
    experiment = client.create_experiment("rlver")
    for variant, emotion in SCORES:
        run = client.create_run(experiment, run_name=f"score@{variant}", tags={"stage_group": "score", "variant": variant}).info.run_id
        for name, value in {"appraised": 3.0, "emotion_mean": emotion, "success_rate": 0.5}.items():
            client.log_metric(run, name, value)
        client.set_terminated(run)
    monkeypatch.setattr(servers, "START_S", 500.0)  # a busy machine
    with servers.mlflow(tmp_path, tracking_uri, servers.free_port(5390)) as running:
        yield running.url


def test_the_comparison_opens_with_the_final_emotion_of_every_variant(server: str, tmp_path: Path) -> None:
    ((name, address), _) = deep_links(Addresses(server, None, tmp_path), {})
    command = installed()
    assert name == "comparison" and command is not None
    with Chromium(command) as page:
        page.look(1440, 950)
        page.ask("Page.navigate", url=address)
        page.wait(f"document.body !== null && {DRAWN}.includes('77.70')")
        shown, drawn = page.run(SHOWN), page.run(DRAWN)
        assert drawn[:3] == ["22.30", "60.10", "77.70"], "bars from below; the old score of the base is not among them"
        assert shown.index("emotion_mean\n22.30") < shown.index("success_rate"), "the first chart"
        assert "appraised" not in shown, "the first metric of the alphabet"
        order = [shown.index(f"score@{variant}") for variant in ("grpo-think", "ppo", "base")]
        assert order == sorted(order), "runs by final emotion"
