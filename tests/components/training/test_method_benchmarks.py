"""The arithmetic of the tables in docs/credit.md and docs/training.md, and that a comparison of arms goes on only as what it was begun."""

from __future__ import annotations

import asyncio
import math
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks import credit_arms, critic_ceiling, full_context, gated_credit, mismatch
from rlver.components.domain.transcript import StopReason


def test_gap_and_share_beyond_the_cap_count_only_what_learns() -> None:
    """Ratios of 1, 2 and 8 learn, one of e^9 does not: (0 + ln 2 + ln 8) / 3, and one of three above 4."""
    trainer = torch.tensor([[0.0, math.log(2), math.log(8), 9.0]])
    gap, beyond = mismatch.gap_and_beyond(trainer, torch.zeros(1, 4), torch.tensor([[1, 1, 1, 0]]), 4.0)
    assert gap == pytest.approx(math.log(16) / 3) and beyond == pytest.approx(1 / 3)


def test_a_gradient_is_compared_by_direction_and_by_length() -> None:
    assert mismatch.against(torch.tensor([3.0, 4.0]), torch.tensor([3.0, 0.0])) == pytest.approx((0.6, 5 / 3))


def test_an_interval_over_batches_is_students() -> None:
    """Mean 2, standard deviation 1, 4.3027 of its thirds' roots with 2 degrees of freedom."""
    assert mismatch.interval([1.0, 2.0, 3.0]) == pytest.approx((2, 2 - 4.3027 / 3**0.5, 2 + 4.3027 / 3**0.5), abs=1e-3)


def test_the_ratio_of_squares_is_that_of_all_groups_and_its_interval_holds_those_of_the_groups_drawn() -> None:
    sums = np.array([[2.0, 1.0, 8], [2.0, 2.0, 8], [4.0, 3.0, 8]])
    assert gated_credit.ratio(sums) == 6 / 8
    low, high = gated_credit.interval(sums)
    assert 0.5 <= low < 0.75 < high <= 1.0
    assert gated_credit.interval(np.array([[2.0, 1.0, 8]] * 3)) == (0.5, 0.5)


def test_without_malformed_turns_the_gate_changes_nothing_and_with_them_it_lowers_the_squares() -> None:
    from rlver.components.personas.generator import compose_personas
    from rlver.components.personas.library import load_library

    personas = compose_personas(load_library(), 7, 8, 8)[0]
    whole, malformed = gated_credit.squares(personas, 0.0, 7)
    assert malformed == 0 and gated_credit.ratio(whole) == 1
    broken, malformed = gated_credit.squares(personas, 0.03, 7)
    assert 0.1 < malformed < 0.5 and gated_credit.ratio(broken) < 0.95


def test_explained_variance_is_of_all_turns_and_its_interval_over_personas() -> None:
    """What is predicted lacks noise of a quarter of the variance for half of the personas, and of none for the others."""
    random = np.random.default_rng(1)
    returned, who = random.normal(size=4000), np.repeat(np.arange(40), 100)
    expected = returned - np.where(who % 2, random.normal(size=4000) / 2, 0)
    share, low, high = critic_ceiling.explained(returned, expected, who)
    assert share == pytest.approx(1 - np.var(returned - expected) / np.var(returned))
    assert low < share < high and 0.02 < high - low < 0.2
    assert critic_ceiling.explained(returned, returned, who) == (1, 1, 1)


def test_masking_full_dialogues_forgives_what_they_lost(dialogue) -> None:
    """Of each of two personas one dialogue ends well and one, whose context was full, badly: .9 if they are left out, .5 if not."""

    def one(name: str, emotion: int, reason: StopReason):
        return dialogue(name, [1]).model_copy(update={"persona_id": name[0], "emotion_final": emotion, "stop_reason": reason})

    held = [one(f"{who}{end}", end, StopReason.CONTEXT_FULL if end < 50 else StopReason.TURN_LIMIT) for who in "ab" for end in (10, 90)]
    found = full_context.sums(held)
    assert full_context.means(found) == pytest.approx((0.5, 0.9, 0.5, 0.4))
    assert full_context.intervals(found, 10)[3] == pytest.approx((0.4, 0.4))


def test_a_rambler_fills_the_context_and_a_plain_speaker_does_not() -> None:
    from rlver.components.personas.generator import compose_personas
    from rlver.components.personas.library import load_library

    personas = compose_personas(load_library(), 7, 8, 8)[0][:2]
    assert all(one.stop_reason is not StopReason.CONTEXT_FULL for one in full_context.held(personas, 0.0, 7))
    cues: list[bool] = []
    session = full_context.Noted(cues).session(personas[0], 7)
    said = [asyncio.run(session.open()), *(asyncio.run(session.speak(40)) for _ in range(5))]
    assert cues == [one.cue is True for one in said] and not cues[0], "the supporter is told of the hints that were given"
    full = full_context.held(personas, 1.0, 7)
    assert sum(one.stop_reason is StopReason.CONTEXT_FULL for one in full) > len(full) / 2
    assert all(one.emotion_final is not None for one in full)


@pytest.fixture
def stages(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """The stages that were started; they leave what a comparison looks at and learn nothing."""
    started: list[tuple[str, ...]] = []

    def run(command: tuple[str, ...], cwd: Path, **_: object) -> None:
        name, options = command[2].rpartition(".")[2], dict(zip(command[3::2], command[4::2], strict=True))
        started.append((name, options.get("--out", "")))
        out = cwd / options["--out"]
        if name == "converse":
            out.write_text("")
            return
        out.mkdir(parents=True, exist_ok=True)
        if name == "base":
            (cwd / options["--metrics"]).write_text('{"cut_short": true}')
        (out / ("train.jsonl" if name == "personas" else "weights")).write_text("{}")
        if name == "train" and "broken" in (cwd / "trouble").read_text() and "dialogue-s8" in options["--out"]:
            raise subprocess.CalledProcessError(1, command)

    monkeypatch.setattr(credit_arms.subprocess, "run", run)
    monkeypatch.setattr(credit_arms, "emotions", lambda folder, arm, seed: {"a": [40.0 + seed], "b": [42.0 + seed + (arm == "dialogue")]})
    monkeypatch.setattr(credit_arms, "known_personas", lambda path: [])
    monkeypatch.setattr(credit_arms, "explained", lambda folder, arm, seed: None)
    return started


def _compare(monkeypatch: pytest.MonkeyPatch, folder: Path, *options: str) -> int | str:
    arguments = [str(folder), "--seeds", "7", "8", "--arms", "turn", "dialogue", "--jobs", "1", *options]
    monkeypatch.setattr(credit_arms.sys, "argv", ["credit_arms", *arguments])
    return credit_arms.main()


def test_a_comparison_goes_on_where_it_was_and_only_as_what_it_was(
    tmp_path: Path, stages: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "trouble").write_text("broken")
    left = _compare(monkeypatch, tmp_path, "--steps", "2")
    said = capsys.readouterr().out
    assert left == "not whole, and left out: dialogue" and "dialogue-s8: train failed" in said and "cut short by base.max_seconds" in said
    assert [name for name, _ in stages].count("train") == 4
    (tmp_path / "trouble").write_text("")
    stages.clear()
    assert _compare(monkeypatch, tmp_path, "--steps", "2") == 0
    assert stages == [("train", "runs/dialogue-s8/model"), ("converse", "runs/dialogue-s8/test.jsonl")], "the rest was done"
    assert "dialogue | 48.5 49.5 | 49.0 [42.6, 55.4] | +0.5 [-2.3, +3.3] | equivalent | -" in capsys.readouterr().out
    stages.clear()
    refused = _compare(monkeypatch, tmp_path)
    assert f"{tmp_path / 'runs' / 'turn-s7'} was begun with train.steps = 2, now it is 75" in str(refused) and not stages
    (tmp_path / "models" / "base" / "weights").write_text("{ }")
    assert "was begun with" in str(_compare(monkeypatch, tmp_path, "--steps", "2")) and not stages, "another base"


def test_the_exact_arm_has_no_factor_that_later_turns_decide() -> None:
    assert credit_arms.ARMS["turn-dr_grpo"] == {"credit": "turn", "loss_type": "dr_grpo", "scale_rewards": "none"}
