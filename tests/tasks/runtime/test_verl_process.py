"""The stage `train` with verl: its child followed, ended, resumed, and its checkpoint put into place. verl's programs are a stand-in: stand_in_for_verl.py."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
import stand_in_for_verl
import torch
from small_project import REPOSITORY, make_base, make_project, train_arguments, weights

from rlver.components.training.curves import CurveFile
from rlver.components.training.watch import TrainingDiverged
from rlver.tasks.runtime import verl_process
from rlver.tasks.stages import train

VERL = """train: {engine: verl, difficulties: [challenging], credit: dialogue, scale_rewards: group, learning_rate_schedule: constant, save_every: 2, verl_gpus: 2}
policy: {thinking: false}
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("verl")
    make_project(root, steps=5)
    (root / "params" / "verl.yaml").write_text(VERL)
    shutil.copytree(REPOSITORY / "recipes" / "verl", root / "recipes" / "verl")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        make_base(root)
    return root


@pytest.fixture
def root(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    for name, value in stand_in_for_verl.put_in(tmp_path).items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run() -> int:
    return train.main(train_arguments("v", "verl"))


def started(root: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (root / "started.jsonl").read_text().splitlines()]


def rows(root: Path, name: str) -> list[dict[str, float]]:
    return CurveFile(root / "logs" / "v" / name).rows()


def steps_under_way(root: Path) -> list[float]:
    return [row["step"] for file in root.glob("scratch/v/v-*/curves/train.jsonl") for row in CurveFile(file.with_suffix("")).rows()]


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


def nobody_is_left(root: Path) -> bool:
    """No process of the stand-in runs any more: they all stand in the project's folder."""
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and process.status() != psutil.STATUS_ZOMBIE and process.cwd() == str(root):
                return False
        except psutil.Error:
            continue
    return True


def stage(root: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "rlver.tasks.stages.train", *train_arguments("v", "verl")]
    (root / "tmp").mkdir()
    surroundings = {**os.environ, "PYTHONPATH": str(REPOSITORY), "TMPDIR": str(root / "tmp")}
    return subprocess.Popen(command, cwd=root, env=surroundings, stderr=subprocess.PIPE, text=True)


@pytest.mark.long
def test_verl_s_numbers_are_our_curves_and_its_checkpoint_is_the_policy(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run() == 0
    assert [row["step"] for row in rows(root, "train")] == [1, 2, 3, 4, 5]
    last = rows(root, "train")[-1]
    assert last["emotion_mean"] == pytest.approx(45) and (last["entropy"], last["seconds"], last["perf/throughput"]) == (1.5, 2.5, 9.0)
    assert "training/note" not in last and not any(name.startswith("val-") for name in last)
    checks = rows(root, "evaluation")
    assert [row["step"] for row in checks] == [0, 1, 2, 3, 4, 5] and (checks[0]["emotion_mean"], checks[0]["malformed_rate"]) == (
        41.0,
        0.25,
    )
    assert torch.equal(weights(root / "models" / "v"), weights(root / "models" / "base"))
    assert (root / "models" / "v" / "merged_from").read_text() == "global_step_5"
    assert not list((root / "models").glob(".*")) and nobody_is_left(root)
    said = capsys.readouterr().out
    assert "verl 0.9.1 trains from step 0" in said and "step 5/5  emotion 45.0" in said
    [told] = [one["told"] for one in started(root)]
    people = [json.loads(line)["persona_id"] for line in Path(told["data.train_files"]).read_text().splitlines()]
    watched = [json.loads(line)["persona_id"] for line in Path(told["data.val_files"]).read_text().splitlines()]
    assert len(watched) == 2 and people and not set(people) & set(watched)
    loop, of_watched = json.loads(Path(told["actor_rollout_ref.rollout.agent.agent_loop_config_path"]).read_text())
    assert (loop["variant"], loop["difficulty"], loop["params"]) == ("verl", "challenging", str(root / "params.yaml"))
    assert of_watched == loop | {"name": told["data.watched_agent"], "difficulty": "vanilla"}, "held-out checks compare between variants"


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_a_signal_ends_all_of_it_and_the_same_command_goes_on(root: Path, number: signal.Signals) -> None:
    (root / "behave").write_text("hang 3")
    running = stage(root)
    until(lambda: steps_under_way(root) == [1, 2, 3])
    running.send_signal(number)
    assert "interrupted" in running.communicate(timeout=60)[1] and running.returncode == 130
    assert nobody_is_left(root), "its worker has a session of its own"
    (root / "behave").unlink()
    assert run() == 0
    first, second = started(root)
    assert (first["from"], first["told"]["trainer.val_before_train"]) == (0, "true")
    assert (second["from"], second["told"]["trainer.val_before_train"]) == (2, "false")
    assert [row["step"] for row in rows(root, "train")] == [1, 2, 3, 4, 5]


@pytest.mark.long
def test_numbers_that_verl_never_told_are_said_to_be_missing(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """verl saves before it tells: what ends it in between leaves a step without a row."""
    (root / "behave").write_text("hang 4")
    running = stage(root)
    until(lambda: steps_under_way(root) == [1, 2, 3, 4])
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=60)
    [curves] = root.glob("scratch/v/v-*/curves")
    CurveFile(curves / "train").keep_until(3)
    (root / "behave").unlink()
    assert run() == 0
    assert "verl ended before it told the numbers of step 4: the curves lack them" in capsys.readouterr().out
    assert [row["step"] for row in rows(root, "train")] == [1, 2, 3, 5]


@pytest.mark.long
def test_it_does_not_outlive_a_stage_that_was_killed(root: Path) -> None:
    (root / "behave").write_text("hang 1")
    running = stage(root)
    until(lambda: steps_under_way(root) == [1])
    [worker] = [one["worker"] for one in started(root)]
    running.kill()
    running.communicate()
    os.kill(worker, signal.SIGKILL)  # Ray's end with their raylet, and that with verl
    until(lambda: nobody_is_left(root))


@pytest.mark.long
def test_a_checkpoint_that_was_being_written_is_no_checkpoint(root: Path) -> None:
    (root / "behave").write_text("half 4")
    with pytest.raises(RuntimeError, match="no space left"):
        run()
    assert steps_under_way(root) == [1, 2, 3, 4]
    [folder] = root.glob("scratch/v/v-*/verl/checkpoints")
    (folder / "latest_checkpointed_iteration.txt").write_text("4")  # as of a disk that lost what came before it
    (root / "behave").unlink()
    assert run() == 0 and [one["from"] for one in started(root)] == [0, 2]


@pytest.mark.long
def test_verl_s_failure_is_one_line_with_its_cause(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (root / "behave").write_text("die 3")
    with pytest.raises(
        RuntimeError, match=r"verl\.trainer\.main_ppo ended with status 1: RuntimeError: no memory is left on GPU 3; log: .*verl\.log"
    ):
        run()
    assert "Traceback" in capfd.readouterr().err and nobody_is_left(root)
    (root / "behave").write_text("no merger")
    with pytest.raises(RuntimeError, match=r"verl\.model_merger ended with status 1: no merger today"):
        run()
    assert not (root / "models" / "v").exists() and not list((root / "models").glob(".*"))
    (root / "behave").unlink()
    assert run() == 0
    assert [one["from"] for one in started(root)] == [0, 2], "what was trained is not trained again for a merger that failed"


@pytest.mark.long
def test_a_policy_that_says_one_thing_only_ends_verl(root: Path) -> None:
    (root / "behave").write_text("sharp 2")
    with pytest.raises(TrainingDiverged, match=r"step 2: the entropy fell to 0\.0010"):
        run()
    assert nobody_is_left(root)


@pytest.mark.long
def test_another_recipe_or_verl_is_another_training(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (root / "behave").write_text("die 3")
    with pytest.raises(RuntimeError):
        run()
    with (root / "recipes" / "verl" / "common.yaml").open("a") as file:
        file.write("# changed\n")
    (root / "behave").unlink()
    assert run() == 0
    assert [one["from"] for one in started(root)] == [0, 0]
    assert "(step 2 of 5): it was begun with recipes/verl/common.yaml" in capsys.readouterr().out


def test_what_is_missing_is_told_before_anything_starts(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = train.load_settings(Path("params.yaml"), "verl").train
    assert verl_process.lacking(settings, root) is None
    assert "needs 9 GPUs (train.verl_gpus), and this machine has 8" in str(
        verl_process.lacking(settings.model_copy(update={"verl_gpus": 9}), root)
    )
    assert "needs its recipe nowhere/grpo.yaml" in str(verl_process.lacking(settings.model_copy(update={"verl_recipe": "nowhere"}), root))
    shutil.rmtree(root / ".venv-verl")
    with pytest.raises(
        ValueError, match=r"needs verl and rlver in train\.verl_python = \.venv-verl/bin/python; make it: python3\.11 -m venv"
    ):
        run()
    assert not (root / "scratch").exists()
