"""Watching a training run: one row of measures per step, held-out checks, and the guard that stops a run gone wrong."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from transformers import TrainerCallback

from rlver.components.domain.acts import ACTS, right_acts
from rlver.components.domain.emotion import FAILURE, SUCCESS
from rlver.components.domain.transcript import Evidence, StopReason
from rlver.components.rollout.episode import Rollout
from rlver.components.training.curves import CurveFile

# What TRL logs, in the order of the columns; each has the same name here but for one.
_FROM_TRL = ("loss", "grad_norm", "learning_rate", "entropy", "kl", "clip_ratio/region_mean", "learning_share", "logprob_gap", "value_loss",
             "value_mean", "explained_variance")  # fmt: skip
_OURS = {"clip_ratio/region_mean": "clip_fraction"}
_UNLEARNED = 5  # steps in a row from which nobody learned, when that is told
_NEARLY_ALL = 0.9


class TrainingDiverged(RuntimeError):
    """The loss or the gradient is not a number any more, or the policy has stopped talking sense; the last checkpoint is kept."""


@dataclass(frozen=True)
class TrainingLimits:
    """What a policy must stay within at every step; see `train` in params.yaml."""

    min_entropy: float  # nats per token
    max_repeat_rate: float  # of turns
    max_cut_off_rate: float  # of turns
    max_logprob_gap: float  # nats per token, mean

    def broken(self, row: Mapping[str, float]) -> str | None:
        """Which limit a step's row is beyond and what to do, in one line; None while all is well."""
        for name in ("loss", "grad_norm"):
            if not math.isfinite(row.get(name, 0.0)):
                return f"{name} is {row[name]}; lower train.learning_rate"
        if row.get("entropy", math.inf) < self.min_entropy:
            return (
                f"the entropy fell to {row['entropy']:.4f} nats a token, below train.min_entropy = {self.min_entropy}; "
                "raise train.beta or lower train.learning_rate"
            )
        if row.get("repeat_rate", 0.0) > self.max_repeat_rate:
            return (
                f"{row['repeat_rate']:.0%} of the turns repeat themselves, above train.max_repeat_rate = {self.max_repeat_rate}; "
                "raise train.beta or lower train.learning_rate"
            )
        if row.get("cut_off_rate", 0.0) > self.max_cut_off_rate:
            return (
                f"{row['cut_off_rate']:.0%} of the turns are cut off, above train.max_cut_off_rate = {self.max_cut_off_rate}; "
                "raise policy.max_reply_tokens or train.beta"
            )
        if row.get("logprob_gap", 0.0) > self.max_logprob_gap:
            return (
                f"sampler and trainer are {row['logprob_gap']:.4f} nats a token apart, above rollout.max_logprob_gap = "
                f"{self.max_logprob_gap}; the dialogues were sampled with other weights or another precision"
            )
        return None


@dataclass(eq=False)
class TrainingWatch(TrainerCallback):
    """Records every step, calls `check` every `evaluate_every` steps and at the end, stops a policy that is beyond its `limits`.

    `measures` gives the measures of the last batch of rollouts, `check` those of the held-out personas, `profile` what its time went into; `saw` is told
    the step and mean emotion of each check. A step to be checked is recorded and saved first, so a check that fails costs no step. `checked` is the
    step of the last check: a training that goes on makes up for one that is missing.
    """

    steps: CurveFile
    checks: CurveFile
    measures: Callable[[], Mapping[str, float]]
    check: Callable[[int], Mapping[str, float]]
    evaluate_every: int
    limits: TrainingLimits
    show: Callable[[str], None]
    thinking: bool  # policy.thinking
    profile: Callable[[], str] = lambda: ""
    saw: Callable[[int, float], None] = lambda step, emotion: None
    checked: int = field(default=-1, init=False)
    _unlearned: int = field(default=0, init=False)  # steps in a row
    _told: bool = field(default=False, init=False)
    _began: float = field(default_factory=time.monotonic, init=False)
    _run_began: float = field(default_factory=time.monotonic, init=False)
    _first_step: int = field(default=0, init=False)

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._first_step = state.global_step
        self._run_began = self._began = time.monotonic()
        self._check_if_due(state)

    def on_log(self, args: Any, state: Any, control: Any, logs: Mapping[str, float] | None = None, **_: Any) -> None:
        if not logs or "grad_norm" not in logs:
            return
        # TRL says None where every value was NaN, such as the explained variance of returns that are all the same
        values = {_OURS.get(name, name): math.nan if logs[name] is None else float(logs[name]) for name in _FROM_TRL if name in logs}
        now = time.monotonic()
        row = {**self.measures(), **values, "seconds": round(now - self._began, 3)}
        self._began = now
        self.steps.record(state.global_step, row)
        if problem := self.limits.broken(row):
            raise TrainingDiverged(f"step {state.global_step}: {problem}")
        done = state.global_step - self._first_step
        left = (now - self._run_began) / max(1, done) * (state.max_steps - state.global_step)
        right, one_act = row["right_act_rate"], row["one_act_rate"]  # an LLM user marks no cues and names no acts, so nobody knows
        self.show(
            f"step {state.global_step}/{state.max_steps}  emotion {row['emotion_mean']:.1f}  success {row['success_rate']:.0%}  "
            f"failure {row['failure_rate']:.0%}  {'' if math.isnan(right) else f'right act {right:.0%}  '}"
            f"{'' if math.isnan(one_act) else f'one act {one_act:.0%}  '}"
            f"{row['seconds']:.1f} s{self.profile()}  ETA {left / 60:.1f} min"
        )
        if "learning_share" in row:  # a second update of a batch has none
            self._unlearned = self._unlearned + 1 if row["learning_share"] == 0 else 0
            if self._unlearned == _UNLEARNED and not self._told:
                self._told = True
                self.show(f"warning: {nobody_learns(row['malformed_rate'], self.thinking)}")

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._check_if_due(state)

    on_train_end = on_step_begin

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self._is_due(state):
            control.should_save = True

    def _is_due(self, state: Any) -> bool:
        step: int = state.global_step
        return step != self.checked and (step % self.evaluate_every == 0 or step == int(state.max_steps))

    def _check_if_due(self, state: Any) -> None:
        if not self._is_due(state):
            return
        step = state.global_step
        began = time.monotonic()
        row = self.check(step)
        self._began += time.monotonic() - began  # it is no part of the step that comes
        self.saw(step, row["emotion_mean"])
        self.checks.record(step, row)  # last: a check without a row is made again
        self.checked = step
        self.show(f"held-out personas at step {step}: emotion {row['emotion_mean']:.1f}, success {row['success_rate']:.0%}")


def nobody_learns(malformed_rate: float, thinking: bool) -> str:
    """Why, most likely, and what to do, in one line."""
    if malformed_rate > _NEARLY_ALL and not thinking:
        return (
            f"nobody learned in the last {_UNLEARNED} steps: {malformed_rate:.0%} of the dialogues are malformed: replies are empty, or hold the "
            "tags of thoughts; take a model or a chat template that does not think"
        )
    if malformed_rate > _NEARLY_ALL:
        return (
            f"nobody learned in the last {_UNLEARNED} steps: {malformed_rate:.0%} of the dialogues are malformed; set policy.thinking: false, "
            "or show the policy the format first"
        )
    return (
        f"nobody learned in the last {_UNLEARNED} steps: in each group all dialogues fared alike; raise train.group_size, "
        "or take a stronger base or another user"
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else math.nan


def one_act_rate(explained: Sequence[Sequence[Evidence]]) -> float:
    """The share of replies in which the commonest act was heard: near 1, the policy does one thing, whoever talks. NaN without replies."""
    heard = Counter(act for evidence in explained for act in {one.what for one in evidence if one.step == "content"} & set(ACTS))
    return max(heard.values(), default=0) / len(explained) if any(explained) else math.nan


def measure(rollouts: Sequence[Rollout]) -> dict[str, float]:
    """Emotion, success, failure and behaviour over the scorable dialogues; shares in 0..1, NaN where nothing could be scored."""
    scored = [rollout for rollout in rollouts if rollout.dialogue.emotion_final is not None]
    finals = [float(rollout.dialogue.emotion_final or 0) for rollout in scored]
    turns = [turn for rollout in scored for turn in rollout.dialogue.turns]
    # an LLM user gives no evidence, so nobody counts repetitions
    explained = [
        turn.appraisal.evidence
        for rollout in scored
        if rollout.dialogue.simulator.names_acts
        for turn in rollout.dialogue.turns
        if turn.appraisal
    ]
    return {
        "n": float(len(scored)),
        "failed_dialogues": float(len(rollouts) - len(scored)),
        "emotion_mean": _mean(finals),
        "success_rate": _mean([final >= SUCCESS for final in finals]),
        "failure_rate": _mean([final < FAILURE for final in finals]),
        "turns_mean": _mean([len(rollout.dialogue.turns) for rollout in scored]),
        "right_act_rate": _mean([hit for rollout in scored for _, hit in right_acts(rollout.dialogue)]),
        "repeat_rate": _mean([any(e.what == "repeats" for e in evidence) for evidence in explained]) if any(explained) else math.nan,
        "one_act_rate": one_act_rate(explained),
        "cut_off_rate": sum(rollout.cut_off for rollout in scored) / len(turns) if turns else math.nan,
        "malformed_rate": _mean([not rollout.well_formed for rollout in scored]),
        "context_full_rate": _mean([rollout.dialogue.stop_reason is StopReason.CONTEXT_FULL for rollout in scored]),
        "reply_tokens": _mean([turn.reply_tokens or 0 for turn in turns]),
        "think_tokens": _mean([turn.think_tokens or 0 for turn in turns]),
    }
