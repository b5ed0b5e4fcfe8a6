"""Reading transcript files for scoring: every line is checked, and the first bad one stops with file and line."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import ValidationError

from components.dialogue.transcript import Dialogue
from components.evaluation.arithmetic import ImpossibleDialogue, check_arithmetic, check_stops
from components.files import BadFile, read_jsonl
from components.simulator.emotion import EmotionRules


def load_transcripts(path: Path, rules: EmotionRules | None = None) -> list[Dialogue]:
    """The dialogues of a JSONL file, their arithmetic checked, and their stops too if `rules` are given.

    Raises BadFile (one line, with file and line number) for a missing or empty file, a line that is no dialogue, a repeated
    dialogue_id, or numbers that contradict each other.
    """
    with uncollected():
        return _load(path, rules)


@contextmanager
def uncollected() -> Iterator[None]:
    """Without Python's search for dead cycles: it looks at everything that was read again and again, two thirds of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _load(path: Path, rules: EmotionRules | None) -> list[Dialogue]:
    dialogues: list[Dialogue] = []
    line_of: dict[str, int] = {}
    for number, row in read_jsonl(path):
        try:
            dialogue = Dialogue.model_validate(row)
            check_arithmetic(dialogue)
            if rules is not None:
                check_stops(dialogue, rules)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            raise BadFile(f"{path}:{number}: not a dialogue: {where}: {first['msg']}") from error
        except ImpossibleDialogue as error:
            raise BadFile(f"{path}:{number}: {error}") from error
        if dialogue.dialogue_id in line_of:
            raise BadFile(f"{path}:{number}: dialogue_id {dialogue.dialogue_id} was on line {line_of[dialogue.dialogue_id]} already")
        line_of[dialogue.dialogue_id] = number
        dialogues.append(dialogue)
    if not dialogues:
        raise BadFile(f"{path}: no dialogues in the file")
    return dialogues
