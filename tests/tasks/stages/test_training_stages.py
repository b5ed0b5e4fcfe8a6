"""Stages base, train and converse in one small project, with the real parts: files, curves, resume."""

from __future__ import annotations

import json
import math
import re
import shutil
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from fakes import a_dialogue, people
from ruamel.yaml import YAML
from small_project import make_project, train_arguments, weights

from rlver.components.domain.kinds import RewardKind
from rlver.components.rollout.episode import Rollout, TooManyFailures
from rlver.components.rollout.transcripts import load_transcripts
from rlver.components.training.curves import CurveFile
from rlver.components.training.watch import TrainingWatch
from rlver.flows.cli import main as rlver
from rlver.tasks.stages import base, converse, train

MALFORMED = Rollout(a_dialogue("d", [5, -3]), (), (), (), (), (), (), malformed_turn=0, cut_off_turns=())
LIGHT = "policy: {thinking: false}\ntrain: {checkpoint_optimizer: false}\n"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("stages")
    make_project(root)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        assert base.main(["--personas", "train.jsonl", "--out", "models/base", "--metrics", "metrics/base.json"]) == 0
        assert run_train("whole") == 0
    return root


def run_train(name: str) -> int:
    return train.main(train_arguments(name))


@pytest.fixture(autouse=True)
def in_project(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)


@pytest.mark.long
def test_base_writes_a_policy_and_its_measures(root: Path) -> None:
    metrics = json.loads((root / "metrics" / "base.json").read_text())
    assert metrics["last_loss"] < metrics["first_loss"] and metrics["steps"] > 0 and not metrics["cut_short"]
    assert metrics["parameters"] == len(weights(root / "models" / "base"))
    assert 0 <= metrics["corpus_emotion_mean"] <= 100


def test_a_base_that_the_clock_cut_short_is_told(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    personas = (root / "train.jsonl").resolve()
    values = YAML(typ="safe").load((root / "params.yaml").read_text())
    values["base"]["max_seconds"] = 0.02
    monkeypatch.chdir(tmp_path)
    YAML(typ="safe").dump(values, Path("params.yaml"))
    assert base.main(["--personas", str(personas), "--out", "models/base", "--metrics", "base.json"]) == 0
    found = json.loads(Path("base.json").read_text())
    assert found["cut_short"] and f"warning: only {found['steps']} steps within base.max_seconds (0.02 s)" in capsys.readouterr().err


def test_the_same_parameters_give_the_same_base(root: Path) -> None:
    assert base.main(["--personas", "train.jsonl", "--out", "models/again", "--metrics", "metrics/again.json"]) == 0
    for name in ("model.safetensors", "tokenizer.json"):
        assert (root / "models" / "again" / name).read_bytes() == (root / "models" / "base" / name).read_bytes()
    assert (root / "metrics" / "again.json").read_bytes() == (root / "metrics" / "base.json").read_bytes()


def test_a_model_of_somebody_else_is_taken_over_as_it_is(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(root / "params.yaml", tmp_path)
    (tmp_path / "params").mkdir()
    (tmp_path / "params" / "other.yaml").write_text(f"base: {{kind: model, model: {root / 'models' / 'base'}}}\n")
    monkeypatch.chdir(tmp_path)
    assert base.main(["--variant", "other", "--out", "taken", "--metrics", "m.json"]) == 0
    assert torch.equal(weights(tmp_path / "taken"), weights(root / "models" / "base"))


def test_training_moves_the_weights_and_writes_its_curves(root: Path) -> None:
    assert not torch.equal(weights(root / "models" / "whole"), weights(root / "models" / "base"))
    assert [row["step"] for row in CurveFile(root / "logs" / "whole" / "train").rows()] == [1, 2]
    checks = CurveFile(root / "logs" / "whole" / "evaluation").rows()
    assert [row["step"] for row in checks] == [0, 1, 2] and all(row["n"] == 2 for row in checks)
    for row in checks:  # the very dialogues that were measured
        held_out = load_transcripts(root / "logs" / "whole" / "held_out" / f"{row['step']}.jsonl")
        assert len(held_out) == 2
        assert sum(dialogue.emotion_final or 0 for dialogue in held_out) / 2 == row["emotion_mean"]


@contextmanager
def ctrl_c_at_step_2() -> Iterator[None]:
    ended = TrainingWatch.on_step_end

    def press(self: TrainingWatch, args: Any, state: Any, control: Any, **other: Any) -> None:
        if state.global_step == 2:
            raise KeyboardInterrupt
        ended(self, args, state, control, **other)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TrainingWatch, "on_step_end", press)
        yield


@pytest.mark.long
def test_interrupted_training_goes_on_from_its_checkpoint_and_ends_in_the_same_weights(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with ctrl_c_at_step_2(), pytest.raises(KeyboardInterrupt):
        run_train("again")
    capsys.readouterr()
    assert run_train("again") == 0
    said = capsys.readouterr().out
    assert "going on from step 1" in said
    assert re.search(r"^step 2/2 .* \d+\.\d s \(policy \d+, users \d+\)  ETA", said, re.MULTILINE), "what the time of a step went into"
    assert_as_whole(root, "again")


def assert_as_whole(root: Path, name: str) -> None:
    torch.testing.assert_close(weights(root / "models" / name), weights(root / "models" / "whole"), atol=1e-6, rtol=0)
    for curve, steps in (("train", [1, 2]), ("evaluation", [0, 1, 2])):
        rows, expected = (CurveFile(root / "logs" / run / curve).rows() for run in (name, "whole"))
        assert [row["step"] for row in rows] == steps
        for row, wanted in zip(rows, expected, strict=True):
            assert row["emotion_mean"] == pytest.approx(wanted["emotion_mean"])


def test_a_check_that_fails_costs_no_step_and_is_made_up_for(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    measured = train.TrainingDialogues.check

    def check(self: train.TrainingDialogues, step: int) -> Any:
        if step == 1:
            raise TooManyFailures("the user's server is gone")
        return measured(self, step)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(train.TrainingDialogues, "check", check)
        with pytest.raises(TooManyFailures):
            run_train("unchecked")
    capsys.readouterr()
    assert run_train("unchecked") == 0
    assert "going on from step 1" in capsys.readouterr().out
    assert_as_whole(root, "unchecked")


@pytest.mark.parametrize("step", [1, 2])
def test_a_training_that_is_asked_to_leave_saves_its_step_and_leaves_the_check_to_the_next_run(step: int, root: Path) -> None:
    held, measured, checked, name = train.TrainingDialogues.held, train.TrainingDialogues.check, list[int](), f"asked-{step}"

    def asked(self: train.TrainingDialogues, persona_ids: Sequence[str], done: int) -> list[Rollout]:
        if done == step - 1:
            signal.raise_signal(signal.SIGTERM)
        return held(self, persona_ids, done)

    def check(self: train.TrainingDialogues, at: int) -> Any:
        checked.append(at)
        return measured(self, at)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(train.TrainingDialogues, "held", asked)
        patch.setattr(train.TrainingDialogues, "check", check)
        with pytest.raises(KeyboardInterrupt):
            run_train(name)
    assert checked == list(range(step)) and list(root.glob(f"scratch/{name}/*/checkpoints/checkpoint-{step}"))
    assert run_train(name) == 0
    assert_as_whole(root, name)


def test_a_training_without_the_optimizer_in_its_checkpoint_says_what_it_goes_on_with(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What that does to the weights: test_training_without_moments.py."""
    (root / "params" / "light.yaml").write_text(LIGHT)
    with ctrl_c_at_step_2(), pytest.raises(KeyboardInterrupt):
        train.main(train_arguments("light", "light"))
    assert train.main(train_arguments("light", "light")) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("going on from step 1 ")]
    assert "), with a fresh optimizer (train.checkpoint_optimizer: false): from here on the steps are not those of" in line


@pytest.mark.long
def test_the_best_check_decides_the_weights_also_of_a_training_that_was_interrupted(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (root / "params" / "best.yaml").write_text("policy: {thinking: false}\ntrain: {keep: best}\n")
    measured = train.TrainingDialogues.check

    def check(self: train.TrainingDialogues, step: int) -> Any:
        return {**measured(self, step), "emotion_mean": {0: 10.0, 1: 90.0, 2: 20.0}[step]}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(train.TrainingDialogues, "check", check)
        with ctrl_c_at_step_2(), pytest.raises(KeyboardInterrupt):
            train.main(train_arguments("best", "best"))
        assert train.main(train_arguments("best", "best")) == 0
    assert "kept: the weights of step 1, whose check was the best" in capsys.readouterr().out
    [first] = (root / "scratch" / "best").glob("*/checkpoints/checkpoint-1")
    kept, last = weights(root / "models" / "best"), weights(root / "models" / "whole")
    torch.testing.assert_close(kept, weights(first), atol=0, rtol=0)
    assert not torch.allclose(kept, last), "not those of the last step"


@pytest.mark.long
def test_a_resumed_curriculum_goes_on_as_if_nothing_had_happened(root: Path) -> None:
    growing = "{curriculum: adaptive, difficulties: [vanilla, challenging], curriculum_low: 0, curriculum_high: 60, steps: 3}"
    (root / "params" / "growing.yaml").write_text(f"policy: {{thinking: false}}\ntrain: {growing}\n")

    def trained(name: str) -> list[dict[str, Any]]:
        assert train.main(train_arguments(name, "growing")) == 0
        return [{key: value for key, value in row.items() if key != "seconds"} for row in CurveFile(root / "logs" / name / "train").rows()]

    undisturbed = trained("grown")
    with ctrl_c_at_step_2(), pytest.raises(KeyboardInterrupt):
        trained("grown-again")
    again = trained("grown-again")
    assert any(0 < row["share_challenging"] < 1 for row in again)
    for row, expected in zip(again, undisturbed, strict=True):
        assert row == pytest.approx(expected, abs=1e-4, nan_ok=True)


@pytest.mark.parametrize(
    ("overlay", "worth"),
    [
        ("policy: {thinking: true}\n", 0.0),
        ("policy: {thinking: false}\n", 0.42),
        ("policy: {thinking: true}\nreward: {format_gate: false}\n", 0.42),
    ],
)
def test_a_dialogue_without_the_format_is_worth_nothing_to_a_thinking_policy(
    root: Path, overlay: str, worth: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "params" / "gate.yaml").write_text(overlay)
    assert dialogues_of("gate", monkeypatch).score(MALFORMED) == pytest.approx(worth)


def dialogues_of(variant: str, monkeypatch: pytest.MonkeyPatch) -> train.TrainingDialogues:
    """The dialogues of a training whose trainer is never made."""

    class Built(Exception):
        """The trainer would be made now."""

    given: dict[str, Any] = {}

    def build(*_: object, **named: Any) -> None:
        given.update(named)
        raise Built

    monkeypatch.setattr("rlver.components.training.build.build_trainer", build)
    with pytest.raises(Built):
        train.main(train_arguments(variant, variant))
    dialogues: train.TrainingDialogues = given["score"].__self__
    return dialogues


def test_a_reward_that_is_no_number_is_refused_by_name(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dialogues, worth = dialogues_of("v", monkeypatch), list[Any]()
    dialogues.reward = RewardKind(lambda dialogue, own: worth[-1])
    for refused in (math.nan, math.inf, "0.5"):
        worth.append(refused)
        with pytest.raises(ValueError, match=rf"reward\.kind emotion gave {refused!r} to d; let it give a finite number, or None"):
            dialogues.score(MALFORMED)
    for taken in (0, 0.5, -2.0, None):
        worth.append(taken)
        assert dialogues.score(MALFORMED) == taken


def test_a_context_that_the_model_cannot_read_is_refused_before_training(root: Path) -> None:
    (root / "params" / "long.yaml").write_text("policy: {thinking: false, max_context_tokens: 90000}\n")
    with pytest.raises(ValueError, match=r"policy\.max_context_tokens is 90000, but the model reads \d+ tokens at most; lower it"):
        train.main(train_arguments("long", "long"))


def test_a_rate_that_is_too_high_for_the_model_is_warned_of_when_training_begins(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Built(Exception):
        """The trainer would be made now."""

    def build(*_: Any, **__: Any) -> Any:
        raise Built

    monkeypatch.setattr("rlver.components.training.build.build_trainer", build)
    for rate, told in ((0.005, True), (0.003, False)):
        (root / "params" / "fast.yaml").write_text(f"train: {{learning_rate: {rate}}}\n")
        with pytest.raises(Built):
            train.main(train_arguments("fast", "fast"))
        said = capsys.readouterr().err
        assert ("warning: train.learning_rate 0.005 is for a smaller model: of 0." in said) is told
        assert ("at most 0.003 is usual; set it in the variant's overlay\n" in said) is told


def test_converse_speaks_with_everybody_and_what_it_wrote_can_be_derived_again(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--variant", "v", "--personas", "test.jsonl", "--model", "models/whole", "--out"]
    assert converse.main([*arguments, "transcripts/v.jsonl"]) == 0
    assert re.search(r"^8 dialogues, final emotion \d+\.\d, success \d+%, failure \d+%$", capsys.readouterr().out, re.MULTILINE)
    dialogues = load_transcripts(root / "transcripts" / "v.jsonl")
    assert [dialogue.persona_id for dialogue in dialogues] == [persona.persona_id for persona in people()[1]]
    assert all(dialogue.policy == "v" for dialogue in dialogues)
    assert rlver(["verify", "transcripts/v.jsonl", "--personas", "test.jsonl", "--variant", "v"]) == 0
    assert converse.main([*arguments, "transcripts/again.jsonl"]) == 0
    assert (root / "transcripts" / "again.jsonl").read_bytes() == (root / "transcripts" / "v.jsonl").read_bytes()


def test_converse_without_a_model_is_one_line(root: Path) -> None:
    with pytest.raises(ValueError, match="models/none: no such model folder"):
        converse.main(["--variant", "v", "--personas", "test.jsonl", "--model", "models/none", "--out", "x.jsonl"])


def test_another_seed_trains_another_policy(root: Path) -> None:
    arguments = ["--variant", "v", "--personas", "train.jsonl", "--base", "models/base", "--scratch", "scratch/seed"]
    assert train.main([*arguments, "--out", "models/s8", "--logs", "logs/s8", "--seed", "8"]) == 0
    assert not torch.equal(weights(root / "models" / "s8"), weights(root / "models" / "whole"))


def test_the_same_policy_talks_with_another_user_under_another_seed(root: Path) -> None:
    arguments = ["--variant", "v", "--personas", "test.jsonl", "--model", "models/whole", "--out", "transcripts/other.jsonl"]
    assert converse.main([*arguments, "--seed", "8", "--difficulty", "challenging"]) == 0
    dialogues = load_transcripts(root / "transcripts" / "other.jsonl")
    assert {(dialogue.seed, dialogue.simulator.difficulty) for dialogue in dialogues} == {(8, "challenging")}
