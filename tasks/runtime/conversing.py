"""Holding the Sentient-Benchmark dialogues of one policy: with progress, and so that an interruption loses only what was not finished."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rlver.components.domain import looks
from rlver.components.domain.files import alone_with, write_jsonl
from rlver.components.domain.persona import Persona
from rlver.components.domain.transcript import Dialogue
from rlver.components.domain.unfinished import Unfinished
from rlver.components.rollout.episode import Job, Rollout, check_failed
from rlver.components.settings.settings import Settings, digest_of
from rlver.tasks.runtime.assembly import Conversation
from rlver.tasks.runtime.fingerprints import code_of, digests, packages_of_users, user_files
from rlver.tasks.runtime.progress import DialogueProgress


def as_evaluated(settings: Settings) -> Settings:
    """The settings with the decoding of benchmark dialogues: the same protocol for every policy."""
    return settings.model_copy(update={"policy": settings.policy.model_copy(update={"temperature": settings.evaluation.temperature})})


def jobs_of(personas: Sequence[Persona], name: str, seed: int, repeats: int) -> list[Job]:
    """Every persona once per repeat, each repeat with a seed of its own."""
    looks.tell((persona.persona_id for persona in personas), [name])
    return [
        Job(f"{name}/{persona.persona_id}/{seed + repeat}", persona, seed + repeat) for repeat in range(repeats) for persona in personas
    ]


def hold_and_write(
    talk: Conversation, jobs: Sequence[Job], out: Path, fingerprint: str, max_failure_rate: float, progress: DialogueProgress
) -> list[Dialogue]:
    """Hold `jobs` and write `out`; those finished by an interrupted run with the same fingerprint are not held again.

    What such a run finished of other jobs, as with a higher --limit, is kept for the next one.

    Failed dialogues are held again on a rerun. Raises TooManyFailures, and then `out` stays as it was; InUse while another process holds
    dialogues for the same file, and then nothing is touched.
    """
    finished = Unfinished(out, {"fingerprint": fingerprint}, Dialogue)

    def on_finished(rollout: Rollout) -> None:
        if rollout.dialogue.error is None:
            finished.add(rollout.dialogue)
        progress.add(rollout.dialogue)

    talk.can_hold(jobs)
    with alone_with(out):
        earlier, wanted = {dialogue.dialogue_id: dialogue for dialogue in finished.resume()}, {job.dialogue_id for job in jobs}
        dialogues = {name: dialogue for name, dialogue in earlier.items() if name in wanted}
        for dialogue in dialogues.values():
            progress.add(dialogue, held_now=False)
        try:
            rollouts = talk.hold([job for job in jobs if job.dialogue_id not in dialogues], on_finished)
        finally:
            progress.close()
        dialogues |= {rollout.dialogue.dialogue_id: rollout.dialogue for rollout in rollouts}
        held = [dialogues[job.dialogue_id] for job in jobs]
        check_failed(held, max_failure_rate)
        write_jsonl(out, [dialogue.model_dump(mode="json") for dialogue in held])
        if earlier.keys() <= wanted:
            finished.discard()
    if told := remarks(rollouts):
        progress.say(f"of the {len(rollouts)} dialogues held now: {told}" if len(rollouts) < len(held) else told)
    return held


def remarks(rollouts: Sequence[Rollout]) -> str:
    """What was wrong with replies of dialogues that were held now and scored all the same; empty when nothing was."""
    replies = sum(len(rollout.dialogue.turns) for rollout in rollouts)
    cut_off, malformed = sum(rollout.cut_off for rollout in rollouts), sum(not rollout.well_formed for rollout in rollouts)
    told = [f"{cut_off} of {replies} replies were cut off at policy.max_reply_tokens"] if cut_off else []
    told += [f"{malformed} of {len(rollouts)} dialogues have a reply without the format that was asked for"] if malformed else []
    return "; ".join(told)


def fingerprint(settings: Settings, personas: Path, model: str, folder: Path | None) -> str:
    """Twelve hex digits of what decides the dialogues: parameters, personas, the code that talks, who speaks for the policy, and the model as
    it lies in `folder` (None: behind an endpoint)."""
    parts = settings.model_dump(mode="json", include={"seed": True, "simulator": True, "policy": True, "rollout": {"sampler"}})
    held = [] if folder is None else sorted(file for file in folder.glob("*") if file.is_file())
    files = {file.name: [file.stat().st_size, file.stat().st_mtime_ns] for file in held}  # large weights would take minutes to read
    read = digests([personas, *code_of("converse"), *user_files(settings)])
    return digest_of({**parts, **packages_of_users(settings), "read": read, "model": model, "files": files})
