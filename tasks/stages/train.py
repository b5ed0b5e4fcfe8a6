"""Stage `train`: reinforcement learning of one variant, with online rollouts against the simulated user.

Checkpoints and curves live in scratch/<name of --out>-<fingerprint>/ while the run is under way: DVC deletes a stage's outputs before it
runs, and a fingerprint of everything that decides the result keeps a checkpoint from being resumed under other settings.
"""

from __future__ import annotations

import argparse
import math
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import NoReturn

from rlver.components.domain.emotion import emotion_reward
from rlver.components.domain.files import BadFile, write_jsonl
from rlver.components.domain.protocols import Simulator
from rlver.components.personas.schema import validate_file
from rlver.components.rollout.episode import Job, Rollout, check_failures
from rlver.components.settings.settings import Settings, digest_of, load_settings
from rlver.components.training import processes
from rlver.components.training.curriculum import Curriculum, hold_out, persona_order
from rlver.components.training.curves import CurveFile
from rlver.components.training.watch import measure
from rlver.tasks.runtime.assembly import over_http, policy_server
from rlver.tasks.runtime.fingerprints import check_identity, half_done, training_identity
from rlver.tasks.runtime.stage import run_stage, write_costs


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--variant", required=True)
    parser.add_argument("--personas", type=Path, required=True)
    parser.add_argument("--base", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--logs", type=Path, required=True)
    parser.add_argument("--scratch", type=Path, default=Path("scratch"))
    parser.add_argument("--seed", type=int, help="in place of the one in params.yaml")
    arguments = parser.parse_args(argv)
    settings = load_settings(Path("params.yaml"), arguments.variant, seed=arguments.seed)
    settings.require_trainable()
    if settings.train.processes > 1 and not processes.launched():
        _become_several(settings.train.processes, list(sys.argv[1:] if argv is None else argv))
    processes.join()
    from rlver.tasks.runtime.checkpoints import exclusive_lock

    if settings.rollout.sampler == "vllm" and processes.count() > 1:
        raise ValueError("rollout.sampler: vllm goes with one process; start it without torchrun, or use transformers")
    identity = training_identity(settings, arguments.personas, arguments.base, processes.count())
    work = arguments.scratch / f"{arguments.out.name}-{digest_of(identity)}"
    check_identity(work, identity)
    if processes.rank() == 0:
        for line in half_done(work, identity):
            print(line, flush=True)
    with exclusive_lock(work, processes.rank() == 0), policy_server(settings, arguments.base, settings.rollout.concurrency) as server:
        train(settings, arguments.variant, arguments.personas, arguments.base, arguments.out, work, server)
    if processes.rank() == 0:
        shutil.copytree(work / "curves", arguments.logs, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".*"))  # of a killed write
    return 0


def _become_several(count: int, arguments: list[str]) -> NoReturn:
    """Go on as torchrun with `count` processes, which a signal to this one reaches."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={count}"]
    os.execv(sys.executable, [*torchrun, "-m", "--", "rlver.tasks.stages.train", *arguments])


def train(settings: Settings, variant: str, personas_file: Path, base: Path, out: Path, work: Path, server: str | None = None) -> None:
    """`server` is the address of a vLLM server that speaks for the policy; None: the model itself does."""
    from rlver.components.policy.load import check_context, load_policy, save_policy
    from rlver.components.policy.policy_server import write_weights
    from rlver.components.training.build import UpdateParameters, build_trainer
    from rlver.components.training.token_scores import merged
    from rlver.components.training.watch import TrainingLimits, TrainingWatch
    from rlver.tasks.runtime.assembly import conversation
    from rlver.tasks.runtime.checkpoints import StopsOnSignal, latest_intact_checkpoint, step_of

    parameters, rules = settings.train, settings.simulator
    personas = {persona.persona_id: persona for persona in validate_file(personas_file)}
    learning, watched = hold_out(list(personas.values()), parameters.evaluation_personas, settings.seed)
    order = persona_order(learning, parameters.steps, parameters.personas_per_step, settings.seed)
    model, tokenizer = load_policy(base)
    check_context(model, settings.policy.max_context_tokens)
    talk = conversation(settings, variant, model, tokenizer, settings.rollout.concurrency)
    talk = over_http(talk, settings, server, lambda: write_weights(model, work / "weights"))
    users: dict[str, Simulator] = {difficulty: talk.user(settings, difficulty) for difficulty in parameters.difficulties}
    curriculum = Curriculum(
        parameters.curriculum,
        parameters.difficulties,
        parameters.steps,
        parameters.curriculum_low,
        parameters.curriculum_high,
        settings.seed,
    )
    talk.can_hold(Job(persona.persona_id, persona, settings.seed, user) for persona in personas.values() for user in users.values())
    last: list[Rollout] = []

    def rollouts(persona_ids: Sequence[str], step: int) -> list[Rollout]:
        first = processes.rank() * len(persona_ids)  # a dialogue's place among those of all processes
        seed = settings.seed * 100_003 + step  # the user of a persona is the same for all dialogues of the step's group
        jobs = [
            Job(
                f"{variant}/s{settings.seed}/step{step}/{persona_id}/{index}",
                personas[persona_id],
                seed,
                users[curriculum.difficulty(personas[persona_id], step // parameters.updates_per_batch)],
            )
            for index, persona_id in enumerate(persona_ids, first)
        ]
        last[:] = processes.gathered(talk.hold(jobs))
        check_failures(last, settings.rollout.max_failure_rate)
        curriculum.observe([rollout.dialogue for rollout in last])
        return list(last)

    def check(step: int) -> Mapping[str, float]:
        own = processes.share(watched)
        jobs = [Job(f"{variant}/s{settings.seed}/check/{persona.persona_id}", persona, settings.seed) for persona in own]
        held_out = processes.gathered(talk.hold(jobs))
        if leads:  # for whoever wants to hear another appraiser on them
            write_jsonl(curves / "held_out" / f"{step}.jsonl", [rollout.dialogue.model_dump(mode="json") for rollout in held_out])
        return measure(held_out, rules.emotion_ceiling, rules.emotion_floor)

    leads = processes.rank() == 0
    curves = work / "curves" if leads else work / f"curves-{processes.rank()}"  # one writer a file

    def show(line: str) -> None:
        if leads:
            print(line if not talk.connection else f"{line}  {talk.costs()}", flush=True)

    steps, checks = CurveFile(curves / "train"), CurveFile(curves / "evaluation")
    leaves = StopsOnSignal(parameters.updates_per_batch)
    trainer = build_trainer(
        model,
        tokenizer,
        order,
        UpdateParameters(
            **parameters.model_dump(include=set(UpdateParameters.__dataclass_fields__) - {"dense", "temperature", "seed"}),
            dense=settings.reward.dense,
            temperature=settings.policy.temperature,
            seed=settings.seed,
        ),
        work / "checkpoints",
        score=lambda rollout: emotion_reward(
            rollout.dialogue, rollout.well_formed, settings.reward.format_gate and settings.policy.thinking
        ),
        rollouts=rollouts,
        callbacks=[
            TrainingWatch(
                steps,
                checks,
                measures=lambda: measure(last, rules.emotion_ceiling, rules.emotion_floor) | curriculum.row(),
                check=check,
                evaluate_every=parameters.evaluate_every * parameters.updates_per_batch,
                limits=TrainingLimits(
                    parameters.min_entropy,
                    parameters.max_repeat_rate,
                    parameters.max_cut_off_rate,
                    settings.rollout.max_logprob_gap if settings.policy.top_p == 1 else math.inf,  # top_p drops what the trainer counts
                ),
                show=show,
            ),
            leaves,
        ],
    )
    checkpoint, damaged = latest_intact_checkpoint(work / "checkpoints")
    for one in damaged:
        show(f"{one} is damaged and left out")
    done = step_of(checkpoint) if checkpoint else -1
    try:
        for curve in (steps, checks):
            curve.keep_until(done)
        if checkpoint:
            curriculum.restore(steps.rows()[-1])
            show(f"going on from step {done} ({checkpoint})")
    except (BadFile, LookupError) as error:
        raise BadFile(f"the curves in {curves} do not belong to {checkpoint} ({error}); delete {work} to start over") from error
    try:
        with leaves.listening() if processes.count() == 1 else nullcontext():
            trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    finally:
        if leads:
            write_costs(out, {"user": talk.connection})
    wanted = parameters.steps * parameters.updates_per_batch
    if leaves.asked and trainer.state.global_step < wanted:
        raise KeyboardInterrupt
    if trainer.state.global_step != wanted:
        raise RuntimeError(f"training stopped at step {trainer.state.global_step} of {wanted}")
    model.eval()
    if hasattr(model, "critic"):
        del model.critic  # of no use to who talks to the policy
    if leads:
        save_policy(merged(trainer.model), tokenizer, out)


if __name__ == "__main__":
    sys.exit(run_stage(main))
