"""Stage `train`: reinforcement learning of one variant, with online rollouts against the simulated user.

Checkpoints and curves live in scratch/<name of --out>-<fingerprint>/ while the run is under way: DVC deletes a stage's outputs before it
runs, and a fingerprint of settings, code and data keeps a checkpoint from being resumed under others.
"""

from __future__ import annotations

import argparse
import math
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, SupportsFloat

import torch
from pydantic import ConfigDict, TypeAdapter

from rlver.components.domain.files import exclusive_lock, write_jsonl
from rlver.components.domain.kinds import RewardKind, own_section
from rlver.components.domain.persona import Persona
from rlver.components.domain.protocols import Simulator
from rlver.components.domain.registry import REWARDS
from rlver.components.personas.schema import validate_file
from rlver.components.rollout.ahead import OneStepAhead
from rlver.components.rollout.episode import Job, Rollout, check_failed
from rlver.components.settings.settings import Settings, digest_of, load_settings
from rlver.components.training import processes
from rlver.components.training.best import BestWeights
from rlver.components.training.curriculum import Curriculum, following, hold_out, persona_order
from rlver.components.training.curves import CurveFile
from rlver.components.training.engines import lacking
from rlver.components.training.rates import warning_of_rate
from rlver.components.training.section import UpdateParameters
from rlver.components.training.watch import TrainingLimits, TrainingWatch, measure
from rlver.tasks.runtime import ranks, verl_process
from rlver.tasks.runtime.assembly import Conversation, conversation, over_http, policy_server
from rlver.tasks.runtime.fingerprints import check_identity, half_done, training_identity
from rlver.tasks.runtime.stage import run_stage, write_costs

ROLLOUTS = TypeAdapter(list[Rollout], config=ConfigDict(ser_json_inf_nan="constants"))
NUMBERS = TypeAdapter(list[int])


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--variant", required=True)
    parser.add_argument("--personas", type=Path, required=True)
    parser.add_argument("--base", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--logs", type=Path, required=True)
    parser.add_argument("--scratch", type=Path, default=Path("scratch"))
    parser.add_argument("--seed", type=int, help="in place of the one in params.yaml")
    parser.add_argument("--rank", type=int, default=0, help=argparse.SUPPRESS)  # of one of several processes, by tasks/runtime/ranks.py
    parser.add_argument("--meeting", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    settings = load_settings(Path("params.yaml"), arguments.variant, seed=arguments.seed)
    settings.require_trainable()
    if problem := verl_process.lacking(settings.train, Path.cwd()) or lacking(settings.train.engine, torch.cuda.is_available()):
        raise ValueError(problem)
    if arguments.meeting:
        ranks.end_with_the_launcher()
    elif settings.train.processes > 1 and not processes.launched():
        return ranks.run(settings.train.processes, "rlver.tasks.stages.train", sys.argv[1:] if argv is None else argv)
    processes.join(arguments.rank, settings.train.processes, arguments.meeting)
    settings.require_trainable_in(processes.count())
    identity = training_identity(settings, arguments.personas, arguments.base, processes.count()) | verl_process.identity(settings.train)
    work = arguments.scratch / f"{arguments.out.name}-{digest_of(identity)}"
    check_identity(work, identity)
    if processes.rank() == 0:
        for line in half_done(work, identity):
            print(line, flush=True)
    alone = exclusive_lock(work) if processes.rank() == 0 else nullcontext()
    with alone, policy_server(settings, arguments.base, settings.rollout.concurrency, True, settings.pushed_rank) as server:
        places = (arguments.personas, arguments.base, arguments.out, work)
        if settings.train.engine == "verl":
            verl_process.train(settings, arguments.variant, *places)
        else:
            train(settings, arguments.variant, *places, server)
    if processes.rank() == 0:
        shutil.copytree(work / "curves", arguments.logs, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".*"))  # of a killed write
    return 0


@dataclass
class TrainingDialogues:
    """The dialogues of one training: those it learns from, step by step, and its checks on the personas that are kept apart."""

    settings: Settings
    variant: str
    conversation: Conversation
    personas: Mapping[str, Persona]
    watched: Sequence[Persona]
    held_out: Path  # folder of the dialogues of each check, for whoever wants to hear another appraiser on them
    last: list[Rollout] = field(default_factory=list)  # of all processes
    ahead: OneStepAhead | None = None  # holds the next step's dialogues during an update
    undisturbed: Callable[[], AbstractContextManager[Any]] = nullcontext  # inside, no dialogues are under way
    seconds: tuple[float, float] = (0.0, 0.0)  # of the last rollouts, and of them in the policy
    judges_failures: bool = True  # False where whoever asks for them does

    def __post_init__(self) -> None:
        parameters = self.settings.train
        self.reward: RewardKind = REWARDS.load(self.settings.reward.kind)
        rules, most = self.conversation.rules, parameters.max_turns or self.conversation.rules.max_turns
        self._learned_from = replace(self.conversation, rules=replace(rules, max_turns=min(most, rules.max_turns)))
        self.users: dict[str, Simulator] = {name: self.conversation.user(self.settings, name) for name in parameters.difficulties}
        self.curriculum = Curriculum(
            parameters.curriculum,
            parameters.difficulties,
            parameters.steps,
            parameters.curriculum_low,
            parameters.curriculum_high,
            self.settings.seed,
        )

    def check_personas(self) -> None:
        """Raise ValueError for the first persona that a user cannot play, before anything is spent."""
        seed, everybody = self.settings.seed, self.personas.values()
        self.conversation.can_hold(Job(one.persona_id, one, seed, user) for one in everybody for user in self.users.values())

    def rollouts(self, persona_ids: Sequence[str], step: int) -> list[Rollout]:
        """One dialogue for each id of this process; returned are those of all processes."""
        self.last = self.ahead(persona_ids, step) if self.ahead else self.held(persona_ids, step)
        return list(self.last)

    def held(self, persona_ids: Sequence[str], step: int) -> list[Rollout]:
        first = processes.rank() * len(persona_ids)  # a dialogue's place among those of all processes
        seed = self.settings.seed * 100_003 + step  # the user of a persona is the same for all dialogues of the step's group
        jobs = [
            Job(
                f"{self.variant}/s{self.settings.seed}/step{step}/{name}/{index}",
                self.personas[name],
                seed,
                self.users[self.curriculum.difficulty(self.personas[name], step // self.settings.train.updates_per_batch)],
            )
            for index, name in enumerate(persona_ids, first)
        ]
        began, sampler = time.monotonic(), getattr(self.conversation.policy, "sampler", None)
        busy = getattr(sampler, "busy_seconds", 0.0)
        rollouts = processes.gathered(self._learned_from.hold(jobs, started=self.ahead is not None), ROLLOUTS)
        self.seconds = (time.monotonic() - began, getattr(sampler, "busy_seconds", 0.0) - busy)
        if self.judges_failures:
            check_failed([rollout.dialogue for rollout in rollouts], self.settings.rollout.max_failure_rate)
        self.curriculum.observe([rollout.dialogue for rollout in rollouts])
        return rollouts

    def profile(self) -> str:
        """What the last step's rollouts took; the rest of a step is the update. Users talk beside the policy or between its batches."""
        all_of_it, policy = self.seconds
        return f" (policy {policy:.0f}, users {all_of_it - policy:.0f})" if policy else f" (rollouts {all_of_it:.0f})"

    def check(self, step: int) -> Mapping[str, float]:
        """Measures of one dialogue with each watched persona. Raises TooManyFailures: the few that were left say nothing of the policy."""
        prefix, seed = f"{self.variant}/s{self.settings.seed}/check", self.settings.seed
        jobs = [Job(f"{prefix}/{persona.persona_id}", persona, seed) for persona in processes.share(self.watched)]
        with self.undisturbed():
            rollouts = processes.gathered(self.conversation.hold(jobs), ROLLOUTS)
        if processes.rank() == 0:
            write_jsonl(self.held_out / f"{step}.jsonl", [rollout.dialogue.model_dump(mode="json") for rollout in rollouts])
        check_failed([rollout.dialogue for rollout in rollouts], self.settings.rollout.max_failure_rate)
        return measure(rollouts)

    def measures(self) -> Mapping[str, float]:
        """Of the dialogues that were held last. The engine trl-async may not have learned from them yet."""
        return measure(self.last) | self.curriculum.row()

    def score(self, rollout: Rollout) -> float | None:
        """The reward that reward.kind names; None for a failed dialogue, 0 for one that broke the format where that is asked for.

        Raises ValueError for a reward that is no number: it would reach the weights.
        """
        if rollout.dialogue.emotion_final is None:
            return None
        reward = self.settings.reward
        if reward.gates_format(self.settings.policy.thinking) and not rollout.well_formed:
            return 0.0
        worth = self.reward.score(rollout.dialogue, own_section(reward, reward.kind))
        if worth is not None and not (isinstance(worth, SupportsFloat) and math.isfinite(worth)):
            raise ValueError(
                f"reward.kind {reward.kind} gave {worth!r} to {rollout.dialogue.dialogue_id}; "
                "let it give a finite number, or None where a dialogue cannot be scored"
            )
        return worth

    def show(self, line: str) -> None:
        if processes.rank() == 0:
            print(line if not self.conversation.connection else f"{line}  {self.conversation.costs()}", flush=True)


def train(settings: Settings, variant: str, personas_file: Path, base: Path, out: Path, work: Path, server: str | None = None) -> None:
    """`server` is the address of a vLLM server that speaks for the policy; None: the model itself does."""
    from rlver.components.policy.load import check_context
    from rlver.components.policy.weights import write_adapters, write_weights
    from rlver.components.training.adapters import load_base
    from rlver.components.training.build import build_trainer
    from rlver.tasks.runtime.checkpoints import StopsOnSignal, resumed

    parameters = settings.train
    personas = {persona.persona_id: persona for persona in validate_file(personas_file)}
    learning, watched = hold_out(list(personas.values()), parameters.evaluation_personas, settings.seed)
    order = persona_order(learning, parameters.steps, parameters.personas_per_step, settings.seed)
    model, tokenizer = load_base(base, parameters.frozen_precision)
    check_context(model, settings.policy.max_context_tokens)
    own = conversation(settings, variant, model, tokenizer, settings.rollout.concurrency, apart=bool(parameters.max_staleness))
    send = write_adapters if settings.pushed_rank else write_weights
    speaking = over_http(own, settings, server, lambda: send(model, work / "weights"), bool(settings.pushed_rank))
    curves = work / (f"curves-{processes.rank()}" if processes.rank() else "curves")  # one writer a file
    steps, checks = CurveFile(curves / "train"), CurveFile(curves / "evaluation")
    dialogues = TrainingDialogues(settings, variant, speaking, personas, watched, curves / "held_out")
    dialogues.check_personas()
    best = BestWeights(work / "best", model, parameters.keep == "best", work / "checkpoints")
    if (warning := warning_of_rate(parameters.learning_rate, model.num_parameters(), parameters.lora_rank)) and processes.rank() == 0:
        print(f"warning: {warning}", file=sys.stderr, flush=True)
    stops, watch = StopsOnSignal(parameters.updates_per_batch), _watch(settings, dialogues, steps, checks, best)
    update = UpdateParameters(parameters, settings.reward, settings.policy, settings.simulator.max_turns, settings.seed)
    if parameters.max_staleness:
        after = following(order, parameters.personas_per_step, parameters.group_size, parameters.updates_per_batch)
        dialogues.ahead = OneStepAhead(dialogues.held, after, speaking.policy.start)
        dialogues.undisturbed = dialogues.ahead.settled
    parts: dict[str, Any] = {"score": dialogues.score, "rollouts": dialogues.rollouts}
    trainer: Any
    if parameters.engine == "trl-async":  # learns with a model of its own; ours speaks
        from rlver.components.training.asynchronous import WeightsInProcess, async_trainer

        weights = WeightsInProcess(model)
        dialogues.undisturbed, dialogues.judges_failures = lambda: weights.under_way, False
        trainer = async_trainer(
            base,
            tokenizer,
            order,
            update,
            work / "checkpoints",
            **parts,
            weights=weights,
            max_failure_rate=settings.rollout.max_failure_rate,
            callbacks=[stops, watch],
        )
    else:
        trainer = build_trainer(model, tokenizer, order, update, work / "checkpoints", **parts, callbacks=[stops, watch])
    checkpoint = resumed(work, (steps, checks), dialogues.curriculum.restore, parameters.checkpoint_optimizer, dialogues.show)
    best.resume(checks.rows())
    watch.checked = min(processes.gathered([max((int(row["step"]) for row in checks.rows()), default=-1)], NUMBERS))
    try:
        with stops.listening() if processes.count() == 1 else nullcontext():
            trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    finally:
        if processes.rank() == 0:
            write_costs(out, speaking.connection)
    if (done := trainer.state.global_step) != (all_steps := parameters.steps * parameters.updates_per_batch):
        raise RuntimeError(f"training stopped at step {done} of {all_steps}; run the same command again")
    if (step := best.put_back()) is not None:
        dialogues.show(f"kept: the weights of step {step}, whose check was the best")
    _save(trainer.model, model, tokenizer, out, base)


def _watch(settings: Settings, dialogues: TrainingDialogues, steps: CurveFile, checks: CurveFile, best: BestWeights) -> TrainingWatch:
    """Records every step, checks the held-out personas, and ends a training that has gone wrong."""
    parameters = settings.train
    return TrainingWatch(
        steps,
        checks,
        measures=dialogues.measures,
        check=dialogues.check,
        evaluate_every=parameters.evaluate_every * parameters.updates_per_batch,
        limits=TrainingLimits(
            parameters.min_entropy,
            parameters.max_repeat_rate,
            parameters.max_cut_off_rate,
            math.inf if parameters.max_staleness else settings.rollout.max_logprob_gap,  # an update lies between sampler and trainer
        ),
        show=dialogues.show,
        thinking=settings.policy.thinking,
        profile=dialogues.profile,
        saw=best.saw,
    )


def _save(trained: Any, policy: Any, tokenizer: Any, out: Path, base: Path) -> None:
    """`trained` is `policy`, or wraps it in adapters. Only the leading process writes."""
    from rlver.components.policy.load import save_policy
    from rlver.components.training.adapters import merged

    policy.eval()
    if hasattr(policy, "critic"):
        del policy.critic  # of no use to who talks to the policy
    if processes.rank() == 0:
        save_policy(merged(trained, base), tokenizer, out, like=base)


if __name__ == "__main__":
    sys.exit(run_stage(main))
