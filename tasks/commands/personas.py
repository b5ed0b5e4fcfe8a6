"""What `rlver personas` does: compose, import, validate. Nothing is written unless every row is good."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rlver.components.domain import looks
from rlver.components.domain.files import write_jsonl
from rlver.components.domain.persona import Persona, PersonaKind
from rlver.components.personas.generator import compose_personas
from rlver.components.personas.library import load_library
from rlver.components.personas.profiles import import_profiles
from rlver.components.personas.schema import InvalidPersonas, Problem, read_rows, validate_file, validate_personas, validate_rows
from rlver.components.personas.special import compose_special
from rlver.tasks.runtime.personas import write_split


def generate(folder: Path, train: int, test: int, seed: int, kind: str | None = None) -> dict[Path, int]:
    """Compose both splits from the library into `folder`, proven apart; returns the number of personas by file."""
    train_split, test_split = _composed(kind, seed, train, test)
    write_split(folder, train_split, test_split)
    return {folder / "train.jsonl": len(train_split), folder / "test.jsonl": len(test_split)}


def compose_one(out: Path, split: str, count: int, seed: int, kind: str | None = None) -> int:
    """Compose `count` personas of one split from the library into the file `out`; returns how many."""
    train, test = _composed(kind, seed, count if split == "train" else 0, count if split == "test" else 0)
    personas = train or test
    validate_personas(out.name, personas)
    write_jsonl(out, [persona.model_dump(mode="json") for persona in personas])
    return len(personas)


def _composed(kind: str | None, seed: int, train: int, test: int) -> tuple[list[Persona], list[Persona]]:
    """Ordinary personas, or those of a kind."""
    return compose_special(PersonaKind(kind), seed, train, test) if kind else compose_personas(load_library(), seed, train, test)


def import_personas(source: Path, out: Path, split: str | None) -> int:
    """Read RLVER/SAGE profiles, of `split` (default: train), or personas in this project's own schema, which say theirs; write the latter.

    Returns how many. Raises ValueError where own personas are of another split than the one that was named.
    """
    rows, problems = read_rows(source)
    own = any("persona_id" in row.values for row in rows)
    personas = validate_rows(source.name, rows, problems) if own else import_profiles(source, split or "train")
    if split and (strangers := [one.persona_id for one in personas if one.split != split]):
        raise ValueError(
            f"{source}: {len(strangers)} personas are not of split {split!r}, first {strangers[0]}: leave --split out, or change `split` in the file"
        )
    looks.tell(persona.persona_id for persona in personas)
    write_jsonl(out, [persona.model_dump(mode="json") for persona in personas])
    return len(personas)


def validate(path: Path) -> tuple[Sequence[Problem], int]:
    """All problems of a persona file, and the number of personas in it (0 when there are problems)."""
    try:
        return (), len(validate_file(path))
    except InvalidPersonas as error:
        return error.problems, 0
