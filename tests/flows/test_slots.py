"""The GPU slot and the time limit of a stage, with a real Prefect server and a real DVC."""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path

import pytest
from served import processes_with

from rlver.tasks.runtime import environment


def test_without_a_gpu_nobody_waits(prefect_server: None, monkeypatch: pytest.MonkeyPatch) -> None:
    from rlver.flows.slots import gpu_slot, prepare_slots

    monkeypatch.setattr(environment, "gpus", lambda: 0)
    assert prepare_slots("http://127.0.0.1/api") == 0
    with gpu_slot("train", 0), gpu_slot("train", 0):
        pass
    monkeypatch.setattr(environment, "gpus", lambda: 2)
    assert prepare_slots(None) == 0, "a run alone with its own server has nobody to wait for"


@pytest.mark.long
def test_stages_of_two_runs_take_turns_on_one_gpu(prefect_server: None, monkeypatch: pytest.MonkeyPatch) -> None:
    from rlver.flows.slots import gpu_slot, prepare_slots

    monkeypatch.setattr(environment, "gpus", lambda: 1)
    gpus = prepare_slots("http://127.0.0.1/api")
    inside, most = 0, 0

    def stage(group: str) -> None:
        nonlocal inside, most
        with gpu_slot(group, gpus):
            inside += 1
            most = max(most, inside)
            time.sleep(0.5)
            inside -= 1

    def side_by_side(*groups: str) -> int:
        nonlocal most
        most = 0
        threads = [threading.Thread(target=stage, args=(group,)) for group in groups]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        return most

    assert side_by_side("train", "converse") == 1
    assert side_by_side("warmup", "converse-raw", "benchmark_base") == 1, "of the pipelines that run by name"
    assert side_by_side("score", "report") == 2  # they need no GPU


def test_a_stage_that_waits_for_its_turn_can_be_interrupted(tmp_path: Path, prefect_server: None, monkeypatch: pytest.MonkeyPatch) -> None:
    from rlver.flows.slots import gpu_slot, prepare_slots
    from rlver.flows.walk import Sharing, bring_up_to_date
    from rlver.tasks.runtime.processes import Stop

    monkeypatch.setattr(environment, "gpus", lambda: 1)
    monkeypatch.setattr("rlver.flows.walk.get_run_logger", logging.getLogger)
    stop, ended = Stop(), list[str]()

    def waiting() -> None:
        try:
            bring_up_to_date.fn(tmp_path, "train@a", ["params changed"], Sharing(2, gpus), stop, None)
        except KeyboardInterrupt:
            ended.append("interrupted")

    thread = threading.Thread(target=waiting, daemon=True)
    with gpu_slot("train", gpus := prepare_slots("http://127.0.0.1/api")):
        thread.start()
        thread.join(1)
        assert thread.is_alive()
        stop.asked = 1
        thread.join(30)
        assert ended == ["interrupted"]


@pytest.mark.long
def test_a_model_is_evaluated_in_the_gpu_s_turn_unless_a_server_computes_it(
    toy: Path, tracking_uri: str, prefect_server: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rlver.flows.evaluate import evaluate
    from rlver.flows.slots import gpu_slot, prepare_slots

    monkeypatch.setattr(environment, "gpus", lambda: 1)
    monkeypatch.setattr("rlver.flows.evaluate.prepare_slots", lambda _: prepare_slots("http://127.0.0.1/api"))
    ended: dict[str, str] = {}

    def evaluated(policy: str) -> threading.Thread:
        thread = threading.Thread(target=lambda: ended.update({policy: evaluate(policy, return_state=True).message or ""}), daemon=True)
        thread.start()
        return thread

    with gpu_slot("train", prepare_slots("http://127.0.0.1/api")):
        here = evaluated("models/none")
        evaluated("openai:none").join(120)
        assert set(ended) == {"openai:none"}, "it needed no turn"
    here.join(120)
    assert set(ended) == {"openai:none", "models/none"}


def test_a_sweep_holds_the_gpu_while_its_trainings_run(
    toy: Path, tracking_uri: str, prefect_server: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from prefect import get_client

    from rlver.flows.slots import GPU_SLOT, prepare_slots
    from rlver.flows.sweep import sweep
    from rlver.tasks.graph.experiments import SweepError

    monkeypatch.setattr(environment, "gpus", lambda: 1)
    monkeypatch.setattr("rlver.flows.sweep.prepare_slots", lambda _: prepare_slots("http://127.0.0.1/api"))
    (toy / "params" / "sweeps").mkdir()
    (toy / "params" / "sweeps" / "s.yaml").write_text("params.yaml:train.steps: [2]\n")
    held = []

    def slots_taken() -> int:
        with get_client(sync_client=True) as client:
            return client.read_global_concurrency_limit_by_name(GPU_SLOT).active_slots

    def trainings(*_: object) -> None:
        held.append(slots_taken())
        raise SweepError("a training failed")

    monkeypatch.setattr("rlver.flows.sweep.experiments.run_sweep", trainings)
    assert sweep("s", return_state=True).message == "a training failed"
    assert held == [1] and slots_taken() == 0


def test_a_limit_that_was_taken_away_is_an_error(prefect_server: None, monkeypatch: pytest.MonkeyPatch) -> None:
    from prefect import get_client

    from rlver.flows.slots import GPU_SLOT, gpu_slot, prepare_slots

    monkeypatch.setattr(environment, "gpus", lambda: 1)
    gpus = prepare_slots("http://127.0.0.1/api")
    with get_client(sync_client=True) as client:
        client.delete_global_concurrency_limit_by_name(GPU_SLOT)
    with pytest.raises(Exception, match=GPU_SLOT), gpu_slot("train", gpus):
        pytest.fail("there is no such limit, so nobody may pass")


@pytest.mark.long
def test_a_stage_over_its_time_is_ended_with_all_it_started(toy: Path, tracking_uri: str, prefect_server: None) -> None:
    from rlver.flows.reproduce import reproduce

    (toy / "data").mkdir()
    (toy / "data" / "personas.txt").write_text("personas\n")
    (toy / "sleep-train-a").write_text("118.25")
    begun = time.monotonic()
    state = reproduce(["train@a"], stage_hours=0.001, return_state=True)
    assert state.is_failed() and "stopped after 0.001 hours, its limit" in (state.message or "")
    assert time.monotonic() - begun < 100
    assert not processes_with(b"sleep\x00118.25")
    (toy / "sleep-train-a").unlink()
    assert reproduce(["train@a"], stage_hours=1.0, return_state=True).is_completed()


@pytest.mark.parametrize(
    ("listed", "visible", "count"),
    [
        ("GPU 0: A (UUID: x)\nGPU 1: A (UUID: y)\n", None, 2),
        ("GPU 0: A\nGPU 1: A\n", "1", 1),
        ("GPU 0: A\n", "-1", 0),
        ("no devices\n", None, 0),
    ],
)
def test_gpus_are_what_the_driver_lists_and_the_process_may_see(
    listed: str, visible: str | None, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "nvidia-smi").write_text(f"#!/bin/sh\ncat <<'END'\n{listed}END\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert environment.gpus() == count
