"""What is there of the paper run, read from its folders. A policy that did not finish is named with the reason and counts nowhere.

A trained policy counts only while its training logs lie beside it: they are gone as soon as its training is begun anew, so transcripts of
an older policy can never stand in for one that failed.

What the paper run consists of: policies, each of a kind (how it was trained) and with a seed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlver.components.ability.noninferiority import with_items
from rlver.components.domain.files import BadFile
from rlver.components.domain.persona import Persona
from rlver.components.domain.transcript import Dialogue
from rlver.components.report.material import Curve, check_belongs, read_curve, read_object
from rlver.components.rollout.transcripts import load_transcripts
from rlver.components.scoring.sentient import by_persona, final_emotion
from rlver.components.scoring.units import Units
from rlver.components.settings.settings import Settings

USERS = ("vanilla", "challenging")  # of the benchmark: every policy talks with both
CURRICULUM = "curriculum"
_SCORING = ("converse", "score")  # stages; where the base's fails, a policy's own dialogues are not scored either


@dataclass(frozen=True, order=True)
class PaperKind:
    """How a policy was trained: `algorithm` ppo or grpo, `users` a difficulty or CURRICULUM. The untrained ones have neither."""

    algorithm: str | None
    thinking: bool
    users: str | None

    @property
    def prompt(self) -> str:
        return "think" if self.thinking else "direct"

    @property
    def recipe(self) -> str:
        """Algorithm and prompt, as a reader says it: PPO, think."""
        return f"{self.algorithm.upper() if self.algorithm else 'base'}, {self.prompt}"

    def __str__(self) -> str:
        return f"{self.recipe}, {self.users} users" if self.users else self.recipe


@dataclass(frozen=True)
class PlannedPolicy:
    """One policy. `base` names the run it is compared with (a base itself); `logs` is the folder of its learning curves."""

    name: str
    kind: PaperKind
    seed: int
    base: str
    logs: Path

    @property
    def is_base(self) -> bool:
        return self.name == self.base


def kind_of(settings: Settings, is_base: bool) -> PaperKind:
    """The kind of a policy trained with these settings, or of a base spoken to with them."""
    if is_base:
        return PaperKind(None, settings.policy.thinking, None)
    train = settings.train
    users = train.difficulties[0] if train.curriculum == "none" else CURRICULUM
    return PaperKind(train.algorithm, settings.policy.thinking, users)


@dataclass(frozen=True)
class Tested:
    """A policy with one user: its dialogues and the metrics that the score stage made of them."""

    dialogues: tuple[Dialogue, ...]
    metrics: Mapping[str, Any]

    @property
    def emotions(self) -> dict[str, list[float]]:
        """Final emotions by persona."""
        return by_persona(self.dialogues, final_emotion)


@dataclass(frozen=True)
class PaperPolicy:
    """What is there of one run. `tested` is by user; `problem` says what is missing and why, None for a complete one."""

    run: PlannedPolicy
    tested: Mapping[str, Tested]
    general: Mapping[str, Any] | None
    training: Curve | None
    held_out: Curve | None
    problem: str | None


@dataclass(frozen=True)
class PaperRun:
    """All policies that were planned, in the order of the table; the scenario of every test persona that has one."""

    policies: tuple[PaperPolicy, ...]
    scenarios: Mapping[str, str]

    def of_kind(self, kind: PaperKind) -> list[PaperPolicy]:
        return [policy for policy in self.policies if policy.run.kind == kind]

    @property
    def incomplete(self) -> list[PaperPolicy]:
        return [policy for policy in self.policies if policy.problem is not None]


def load_paper_run(
    runs: Sequence[PlannedPolicy], transcripts: Path, metrics: Path, failures: Mapping[str, str], personas: Iterable[Persona] = ()
) -> PaperRun:
    """Read `transcripts`/<run>/<user>.jsonl, `metrics`/<run>/ and the runs' logs; `failures` are the reasons of stages `…@<run>`.

    Raises BadFile, in one line, for a broken file or metrics of other transcripts, unless a failed stage left them behind: then the policy
    has no dialogues with this user. So it does where policies met different kinds or versions of a user.
    """
    loaded = tuple(_load(run, transcripts / run.name, metrics / run.name, failures) for run in runs)
    for user in USERS:
        met = {one.simulator: policy.run.name for policy in loaded if user in policy.tested for one in policy.tested[user].dialogues}
        if len(met) > 1:
            told = ", ".join(sorted(f"{name} {tag.kind} {tag.version}" for tag, name in met.items()))
            raise BadFile(
                f"{transcripts}: policies met different {user} users ({told}), whose scores are not comparable; run converse again"
            )
    return PaperRun(loaded, Units.of(personas).scenario_of)


def read_failures(path: Path) -> dict[str, str]:
    """Reasons by stage, as `rlver run` left them; empty without the file."""
    return {stage: str(reason).removeprefix(f"{stage}: ") for stage, reason in (read_object(path) or {}).items()}


def _load(run: PlannedPolicy, transcripts: Path, metrics: Path, failures: Mapping[str, str]) -> PaperPolicy:
    in_the_root = (f":{train}@{run.logs.name}" for train in ("train", "train_verl"))  # under the name of its variant
    own = (f"@{run.name}", *in_the_root)
    reason = "; ".join(f"{_stage(name)} failed: {why}" for name, why in failures.items() if f":{name}".endswith(own))
    if not (run.is_base or run.logs.is_dir()):
        without_base = f"base failed: {failures['base']}" if "base" in failures else "not trained yet"
        return PaperPolicy(run, {}, None, None, None, reason or without_base)
    left_behind = any(_stage(name) in _SCORING and name.rpartition("@")[2] in (run.name, run.base) for name in failures)

    def with_user(user: str) -> Tested | None:
        try:
            return _tested(transcripts / f"{user}.jsonl", metrics / f"{user}.json")
        except BadFile:
            if left_behind:
                return None
            raise

    tested = {user: found for user in USERS if (found := with_user(user)) is not None}
    general = with_items(read_object(metrics / "general.json"), metrics / "general.json")
    absent = [f"no scored dialogues with the {user} user" for user in USERS if user not in tested]
    absent += ["no benchmark"] if general is None and "benchmark failed" not in reason else []
    return PaperPolicy(
        run=run,
        tested=tested,
        general=general,
        training=read_curve(run.logs / "train.csv"),
        held_out=read_curve(run.logs / "evaluation.csv"),
        problem="; ".join([*absent, *([reason] if reason else [])]) or None,
    )


def _tested(transcripts: Path, metrics: Path) -> Tested | None:
    scores = read_object(metrics)
    if scores is None or not transcripts.is_file():
        return None
    dialogues = tuple(load_transcripts(transcripts))
    check_belongs(metrics, scores, transcripts, dialogues)
    user = transcripts.stem
    if other := sorted({dialogue.simulator.difficulty for dialogue in dialogues} - {user}):
        raise BadFile(f"{transcripts}: these dialogues are with the {', '.join(other)} user; run converse again")
    return Tested(dialogues, scores)


def _stage(name: str) -> str:
    return name.rpartition(":")[2].partition("@")[0]
