"""The stage `train` with dialogues one step ahead, and with TRL's asynchronous trainer: the same files in the end."""

from __future__ import annotations

import json
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import plain_attention
import pytest
import torch
from small_project import make_base, make_project, train_arguments, weights

from rlver.components.domain.files import BadFile
from rlver.components.rollout.episode import Rollout
from rlver.components.training.asynchronous import BATCH
from rlver.components.training.curves import CurveFile
from rlver.components.training.watch import TrainingWatch
from rlver.tasks.stages import train

ASYNC = "train: {engine: trl-async, credit: turn, scale_rewards: none, loss_type: dapo, beta: 0.0}\npolicy: {thinking: false}\n"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("engines")
    make_project(root, steps=3, credit="turn", scale_rewards="batch")
    (root / "params" / "ahead.yaml").write_text("train: {max_staleness: 1}\npolicy: {thinking: false}\n")
    (root / "params" / "async.yaml").write_text(ASYNC)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        make_base(root)
    return root


@pytest.fixture(autouse=True)
def in_project(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)


def gaps(root: Path, name: str) -> list[float]:
    rows = CurveFile(root / "logs" / name / "train").rows()
    assert [row["step"] for row in rows] == [1, 2, 3]
    return [row["logprob_gap"] for row in rows]


@pytest.mark.long
def test_dialogues_one_step_ahead_were_sampled_with_the_weights_before_the_last_update(root: Path) -> None:
    assert train.main(train_arguments("now")) == 0
    assert train.main(train_arguments("ahead", "ahead")) == 0
    assert max(gaps(root, "now")) < 1e-4, "sampled with the weights that learn from them"
    first, *later = gaps(root, "ahead")
    assert first < 1e-4 and min(later) > 1e-3, "an update lies between"
    assert [row["step"] for row in CurveFile(root / "logs" / "ahead" / "evaluation").rows()] == [0, 1, 2, 3]
    assert not torch.equal(weights(root / "models" / "ahead"), weights(root / "models" / "base"))


@pytest.mark.long
def test_trl_s_asynchronous_trainer_makes_the_same_files(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="trl-async needs a GPU"):
        train.main(train_arguments("async", "async"))
    assert not (root / "models" / "async").exists()
    plain_attention.put_in(monkeypatch)
    monkeypatch.setattr(train, "lacking", lambda *_: None)
    assert train.main(train_arguments("async", "async")) == 0
    assert not torch.equal(weights(root / "models" / "async"), weights(root / "models" / "base"))
    assert [row["step"] for row in CurveFile(root / "logs" / "async" / "train").rows()] == [1, 2, 3]
    assert [row["step"] for row in CurveFile(root / "logs" / "async" / "evaluation").rows()] == [0, 1, 2, 3]


@pytest.mark.long
def test_trl_s_asynchronous_trainer_goes_on_from_its_checkpoint_and_from_none_without_its_batch(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plain_attention.put_in(monkeypatch)
    monkeypatch.setattr(train, "lacking", lambda *_: None)
    ends, held = TrainingWatch.on_step_end, list[int]()
    hold = train.TrainingDialogues.held

    def press(watch: TrainingWatch, args: Any, state: Any, control: Any, **named: Any) -> None:
        ends(watch, args, state, control, **named)
        if state.global_step == 1:  # so step 2 is finished
            signal.raise_signal(signal.SIGINT)

    def noted(self: train.TrainingDialogues, persona_ids: Sequence[str], step: int) -> list[Rollout]:
        held.append(step)
        return hold(self, persona_ids, step)

    monkeypatch.setattr(train.TrainingDialogues, "held", noted)
    with monkeypatch.context() as patch:
        patch.setattr(TrainingWatch, "on_step_end", press)
        with pytest.raises(KeyboardInterrupt):
            train.main(train_arguments("later", "async"))
    [checkpoint] = (root / "scratch" / "later").glob("*/checkpoints/checkpoint-2")
    batch = json.loads((checkpoint / BATCH).read_text())["batch"]
    assert held[0] == 0 and 0 <= batch <= held[-1]
    held.clear()
    assert train.main(train_arguments("later", "async")) == 0
    assert "going on from step 2" in capsys.readouterr().out
    assert held[0] == batch, "dialogues begin where the learning ended"
    assert [row["step"] for row in CurveFile(root / "logs" / "later" / "train").rows()] == [1, 2, 3]
    assert not torch.equal(weights(root / "models" / "later"), weights(checkpoint))
    [last] = (root / "scratch" / "later").glob("*/checkpoints/checkpoint-3")
    (last / BATCH).write_text("[]\n")
    with pytest.raises(BadFile, match="delete its folder to go on from an earlier checkpoint"):
        train.main(train_arguments("later", "async"))
