"""Recordings: read to be learned from, split into locked and learned, and what the card of an appraiser says of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from rlver.components.domain import looks
from rlver.components.domain.emotion import check_arithmetic
from rlver.components.domain.files import BadFile, write_json, write_text_atomically
from rlver.components.domain.transcript import Dialogue
from rlver.components.formats.sage import dialogue_of
from rlver.components.personas.schema import read_rows, validate_file
from rlver.components.settings.settings import Settings
from rlver.tasks.runtime.options import refuse_twice
from rlver.tasks.studies.distil.examples import Examples, Fold, LearningMaterial, examples, hash_order, locked, material
from rlver.tasks.studies.distil.fidelity import fidelity_of, fold_scored, markdown
from rlver.tasks.studies.distil.learn import refused_personas

_CURVE = (0.25, 0.5, 1.0)  # shares of the personas learned from, for the learning curve


def read_material(transcripts: Sequence[Path], personas: Path | None, settings: Settings) -> LearningMaterial:
    people = {} if personas is None else {persona.persona_id: persona for persona in validate_file(personas)}
    refuse_twice(transcripts)
    dialogues = [dialogue for path in transcripts for dialogue in recorded(path)]
    said = Counter((one.dialogue_id, one.model_dump_json(include={"simulator", "turns"})) for one in dialogues)
    if repeated := [name for (name, _), count in said.items() if count > 1]:  # of one id, but felt by another user, is one more
        raise BadFile(
            f"{len(repeated)} dialogues are there twice, first {repeated[0]}: is one file a copy of another, or part of it? Leave one out"
        )
    return material(examples(dialogues, people), settings.distil)


def recorded(path: Path) -> list[Dialogue]:
    """Transcripts, or recorded SAGE dialogues as they are; plain or gzipped."""
    rows, problems = read_rows(path)
    if problems:
        raise BadFile(f"{path}:{problems[0].line}: {problems[0].reason}")
    policy = path.name.removesuffix(".gz").removesuffix(".jsonl")
    found = []
    for row in rows:
        try:
            sage = isinstance(row.values.get("history"), list)
            found.append(dialogue_of(row.values, policy) if sage else Dialogue.model_validate(row.values))
            check_arithmetic(found[-1])
        except ValidationError as error:
            if "persona_class" in row.values:
                raise BadFile(f"{path}: these are personas, not dialogues; name them with --personas") from error
            one = error.errors()[0]
            what = f"{'.'.join(map(str, one['loc']))}: {one['msg']}"
            raise BadFile(f"{path}:{row.line}: neither a transcript nor a recorded SAGE dialogue: {what}") from error
        except ValueError as error:
            raise BadFile(f"{path}:{row.line}: {error}") from error
    looks.tell_of(found)
    return found


def locked_split(prepared: LearningMaterial, settings: Settings) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    dialogues, share = prepared.examples.dialogues, settings.distil.locked_share
    lock = locked(dialogues, share)
    several = bool(lock.policies)
    tested = tuple(n for n, one in enumerate(dialogues) if one.persona_id in lock.personas and (one.policy in lock.policies or not several))
    development = [n for n, one in enumerate(dialogues) if one.persona_id not in lock.personas and one.policy not in lock.policies]
    names = hash_order("curve", (dialogues[number].persona_id for number in development))
    curve: list[dict[str, Any]] = []
    figures: dict[str, Any] = {}
    learned: tuple[int, ...] = ()
    for part in _CURVE:
        kept = set(names[: max(2, round(part * len(names)))])
        learned = tuple(number for number in development if dialogues[number].persona_id in kept)
        predicted = fold_scored(prepared, Fold(learned, tested), settings.distil, settings.seed)
        figures = fidelity_of(prepared, [predicted], settings.simulator.rules, settings.evaluation.bootstrap_samples, settings.seed)
        told, free = figures["teacher_forced"], figures["free_running"]
        curve.append(
            {
                "dialogues": len(learned),
                "turns": len(prepared.examples.rows_of(learned)),
                "free_r": free["expected"]["r"]["value"],
                "told_r": told["expected"]["r"]["value"],
                "told_sign": told["change"]["sign_accuracy"]["value"],
            }
        )
    figures["guard"] = refused_personas(prepared.examples, learned, tested, settings.distil)
    held_out = "locked personas" + (
        f" with locked models ({', '.join(sorted(lock.policies))})" if several else "; one policy model, so none is held out"
    )
    return {held_out: figures}, curve


def origin(examples: Examples, settings: Settings) -> dict[str, Any]:
    dialogues = examples.dialogues
    return {
        "dialogues": len(dialogues),
        "turns": len(examples.change),
        "personas": len({one.persona_id for one in dialogues}),
        "policies": sorted({one.policy for one in dialogues}),
        "users": sorted({f"{one.simulator.kind} {one.simulator.difficulty} {one.simulator.version}" for one in dialogues}),
        "parameters": settings.distil.model_dump(),
        "seed": settings.seed,
    }


def amount(examples: Examples) -> str:
    return f"{len(examples.dialogues)} dialogues, {len(examples.change)} judged replies"


def headline(splits: dict[str, Any]) -> str:
    name, figures = next(iter(splits.items()))
    told, free, guard = figures["teacher_forced"], figures["free_running"], figures.get("guard")
    return (
        f"{name}: teacher-forced r {told['expected']['r']['value']}, sign {told['change']['sign_accuracy']['value']}; "
        f"free-running dialogue r {free['dialogue_mean_r']['value']}, final r {free['final_r']['value']}"
        + (f"; users of {guard['refused']} of {guard['personas']} held-out personas refused" if guard else "")
    )


def write_card(folder: Path, name: str, card: dict[str, Any]) -> None:
    write_json(folder / f"{name}.json", card)
    write_text_atomically(folder / f"{name}.md", markdown(card))
