"""Stage `train`: reinforcement learning of one variant, with online rollouts against the simulated user.

Checkpoints and curves live in scratch/<fingerprint>/ while the run is under way: DVC deletes a stage's outputs before it runs, and a
fingerprint of everything that decides the result keeps a checkpoint from being resumed under other settings.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from components.dialogue.episode import Job, Rollout
from components.dialogue.rollouts import check_failures
from components.personas.schema import validate_file
from components.recording import CurveFile
from components.reward.emotion_reward import emotion_reward
from components.settings import Settings, digest_of, load_settings
from components.simulator.protocol import Simulator
from components.training.curriculum import Curriculum
from components.training.measures import measure
from components.training.order import hold_out, persona_order
from tasks.stages import run_stage


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
    work = arguments.scratch / f"{arguments.variant}-{fingerprint(settings, arguments.personas, arguments.base)}"
    train(settings, arguments.variant, arguments.personas, arguments.base, arguments.out, work)
    arguments.logs.mkdir(parents=True, exist_ok=True)
    for curve in sorted((work / "curves").iterdir()):
        shutil.copyfile(curve, arguments.logs / curve.name)
    return 0


def fingerprint(settings: Settings, personas: Path, base: Path) -> str:
    """Twelve hex digits of everything that decides the result of a training run: settings, personas, base and code."""
    parts = settings.model_dump(mode="json", include={"seed", "simulator", "policy", "rollout", "reward", "train"})
    weights = sorted(base.glob("*.safetensors"))
    code = sorted(
        path for folder in ("dialogue", "policy", "reward", "simulator", "training") for path in Path("components", folder).rglob("*.py")
    )
    files = {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in [personas, *weights, *code]}
    return digest_of({"settings": parts, "files": files})


def train(settings: Settings, variant: str, personas_file: Path, base: Path, out: Path, work: Path) -> None:
    from components.policy.load import load_policy, save_policy
    from components.training.build import UpdateParameters, build_trainer
    from components.training.watch import Watch
    from tasks.stages.assembly import conversation, simulator

    parameters, rules = settings.train, settings.simulator
    personas = {persona.persona_id: persona for persona in validate_file(personas_file)}
    learning, watched = hold_out(list(personas.values()), parameters.evaluation_personas, settings.seed)
    order = persona_order(learning, parameters.steps, parameters.personas_per_step, settings.seed)
    model, tokenizer = load_policy(base)
    talk = conversation(settings, variant, model, tokenizer, settings.rollout.concurrency)
    users: dict[str, Simulator] = {difficulty: simulator(settings, difficulty) for difficulty in parameters.difficulties}
    curriculum = Curriculum(
        parameters.curriculum,
        parameters.difficulties,
        parameters.steps,
        parameters.curriculum_low,
        parameters.curriculum_high,
        settings.seed,
    )
    last: list[Rollout] = []

    def rollouts(persona_ids: Sequence[str], step: int) -> list[Rollout]:
        seed = settings.seed * 100_003 + step  # the user of a persona is the same for all dialogues of the step's group
        jobs = [
            Job(
                f"{variant}/s{settings.seed}/step{step}/{persona_id}/{index}",
                personas[persona_id],
                seed,
                users[curriculum.difficulty(personas[persona_id], step // parameters.updates_per_batch)],
            )
            for index, persona_id in enumerate(persona_ids)
        ]
        last[:] = talk.hold(jobs)
        check_failures(last, settings.rollout.max_failure_rate)
        curriculum.observe([rollout.dialogue for rollout in last])
        return list(last)

    def check(step: int) -> Mapping[str, float]:
        jobs = [Job(f"{variant}/s{settings.seed}/check/{persona.persona_id}", persona, settings.seed) for persona in watched]
        return measure(talk.hold(jobs), rules.emotion_ceiling, rules.emotion_floor)

    steps, checks = CurveFile(work / "curves" / "train"), CurveFile(work / "curves" / "evaluation")
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
            Watch(
                steps,
                checks,
                measures=lambda: measure(last, rules.emotion_ceiling, rules.emotion_floor) | curriculum.row(),
                check=check,
                evaluate_every=parameters.evaluate_every * parameters.updates_per_batch,
                min_entropy=parameters.min_entropy,
                show=lambda line: print(line, flush=True),
            )
        ],
    )
    checkpoint = _last_checkpoint(work / "checkpoints")
    done = int(checkpoint.name.rsplit("-", 1)[1]) if checkpoint else -1
    steps.keep_until(done)
    checks.keep_until(done)
    if checkpoint:
        curriculum.restore(steps.rows()[-1])
        print(f"going on from step {done} ({checkpoint})", flush=True)
    trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    wanted = parameters.steps * parameters.updates_per_batch
    if trainer.state.global_step != wanted:
        raise RuntimeError(f"training stopped at step {trainer.state.global_step} of {wanted}")
    model.eval()
    if hasattr(model, "critic"):
        del model.critic  # of no use to who talks to the policy
    save_policy(model, tokenizer, out)


def _last_checkpoint(folder: Path) -> Path | None:
    """The newest complete checkpoint; one that was being written when the process died lacks its state file."""
    complete = [path.parent for path in folder.glob("checkpoint-*/trainer_state.json")]
    return max(complete, key=lambda path: int(path.name.rsplit("-", 1)[1]), default=None)


if __name__ == "__main__":
    sys.exit(run_stage(main))
