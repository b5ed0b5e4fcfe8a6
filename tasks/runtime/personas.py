"""Files of persona splits: an imported split is read, and train and test are written together, proven apart."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rlver.components.domain.files import target_of, write_jsonl
from rlver.components.domain.persona import Persona
from rlver.components.personas.schema import InvalidPersonas, Problem, validate_file, validate_personas
from rlver.components.personas.split import labelled_split, split_metrics


def load_split(path: Path, *splits: str) -> list[Persona]:
    """Validated personas that are all of one of the given splits. Raises InvalidPersonas otherwise."""
    personas = validate_file(path)
    strangers = [one for one in personas if one.split not in splits]
    if strangers:
        reason = (
            f"{len(strangers)} row(s) are not of split {splits[0]!r}, first {strangers[0].persona_id}: make or import them with that split"
        )
        raise InvalidPersonas([Problem(path.name, 0, "split", reason)])
    return personas


def write_file(out: Path, personas: Sequence[Persona]) -> None:
    """Validate, then write personas of one split."""
    validate_personas(out.name, personas)
    write_jsonl(out, _rows(personas))


def write_split(out: Path, train: Sequence[Persona], test: Sequence[Persona]) -> dict[str, Any]:
    """Validate, prove the splits apart, then write both files or neither; returns the metrics of the split."""
    apart = labelled_split(train, test)
    validate_personas("train.jsonl", train)
    validate_personas("test.jsonl", apart)
    _write_both(out / "train.jsonl", train, out / "test.jsonl", apart)
    return split_metrics(train, apart)


def _write_both(first: Path, first_rows: Sequence[Persona], second: Path, second_rows: Sequence[Persona]) -> None:
    """Both texts are on disk before the first is renamed; whatever keeps the second from it, Ctrl-C too, puts the first back."""
    first, second = target_of(first), target_of(second)
    new = {path: path.with_name(f".{path.name}.new") for path in (first, second)}
    kept = first.with_name(f".{first.name}.old")
    try:
        write_jsonl(new[first], _rows(first_rows))
        write_jsonl(new[second], _rows(second_rows))
        if was_there := first.exists():
            shutil.copyfile(first, kept)
        try:
            os.replace(new[first], first)
            os.replace(new[second], second)
        except BaseException:
            if new[second].exists():  # else both are in place
                os.replace(kept, first) if was_there else first.unlink(missing_ok=True)
            raise
    finally:
        for leftover in (*new.values(), kept):
            leftover.unlink(missing_ok=True)


def _rows(personas: Sequence[Persona]) -> list[dict[str, Any]]:
    return [one.model_dump(mode="json") for one in personas]
