"""The door for transcript files: every line is checked, and a file that is refused has all its bad lines named at once."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from rlver.components.domain import looks
from rlver.components.domain.emotion import FAILURE, SUCCESS, EmotionRules, ImpossibleDialogue, check_arithmetic, check_stops
from rlver.components.domain.files import BadFile, parse_json, read_jsonl, read_unpacked
from rlver.components.domain.transcript import Dialogue

SHOWN = 3  # problems told in full; of the rest the lines


class Problem(NamedTuple):
    """One thing that is wrong with one column of one line; `column` is empty where it is the line as a whole."""

    line: int
    column: str
    reason: str

    def __str__(self) -> str:
        return f"{self.column}: {self.reason}" if self.column else self.reason


class BadTranscripts(BadFile):
    """A transcript file that must not be used: one line with the first problems; `problems` has all of them, by line."""

    def __init__(self, path: Path, first: str, problems: Sequence[Problem]) -> None:
        self.problems = problems
        told = "; ".join(f"{path}:{one.line}: {one}" for one in problems[:SHOWN])
        rest = sorted({one.line for one in problems[SHOWN:]})
        more = f"; and {len(problems) - SHOWN} more on {_lines(rest)}" if rest else ""
        super().__init__(first if len(problems) < 2 else f"{first}; in all: {told}{more}")


class _ArePersonas(BadFile):
    """A file of the other kind: its lines have no problems to be told one by one."""


def load_transcripts(path: Path, rules: EmotionRules | None = None) -> list[Dialogue]:
    """The dialogues of a JSONL file, their arithmetic checked, and their stops too if `rules` are given.

    Raises BadFile for a missing or empty file, and BadTranscripts with every line that is no dialogue, repeats a dialogue_id, or has numbers
    that contradict each other. A good file is read once; only a bad one is read again for the rest of its problems.
    """
    with uncollected():
        try:
            return _load(path, rules)
        except _ArePersonas:
            raise
        except BadFile as first:
            problems = _problems(path, rules) if path.is_file() else []
            if not problems:
                raise
            raise BadTranscripts(path, str(first), problems) from first


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
            dialogues.append(_checked(number, row, rules, line_of))
        except ValidationError as error:
            if "persona_class" in row:
                raise _ArePersonas(f"{path}: these are personas, not dialogues; `rlver converse` holds dialogues with them") from error
            raise BadFile(f"{path}:{number}: not a dialogue: {next(_cells(number, error))}") from error
        except ImpossibleDialogue as error:
            raise BadFile(f"{path}:{number}: {error}") from error
    if not dialogues:
        raise BadFile(f"{path}: no dialogues in the file; hold some with `rlver converse`")
    looks.tell_of(dialogues)
    return dialogues


def _checked(line: int, row: dict[str, Any], rules: EmotionRules | None, line_of: dict[str, int]) -> Dialogue:
    """`line_of` has the dialogues before, by id, and gets this one. Raises ValidationError and ImpossibleDialogue."""
    dialogue = Dialogue.model_validate(row)
    check_arithmetic(dialogue)
    if rules is not None:
        check_stops(dialogue, rules)
    if (before := line_of.setdefault(dialogue.dialogue_id, line)) != line:
        raise ImpossibleDialogue(f"dialogue_id {dialogue.dialogue_id} was on line {before} already; each dialogue needs its own")
    return dialogue


def _problems(path: Path, rules: EmotionRules | None) -> list[Problem]:
    """Everything that is wrong with a file, by line; of a cell what the table says of it, where pandera is installed."""
    found: list[Problem] = []
    refused: list[tuple[int, dict[str, Any]]] = []
    line_of: dict[str, int] = {}
    for number, line in enumerate(read_unpacked(path).split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            row = parse_json(line, "")
            if not isinstance(row, dict):
                raise BadFile(f": expected a JSON object, got {type(row).__name__}")
            _checked(number, row, rules, line_of)
        except BadFile as error:
            found.append(Problem(number, "", str(error).removeprefix(": ")))
        except ValidationError as error:
            refused.append((number, row))
            found += _cells(number, error)
        except ImpossibleDialogue as error:
            found.append(Problem(number, "", str(error)))
    told = {(one.line, one.column): one for one in found} | {(one.line, one.column): one for one in _cells_of_table(refused)}
    return sorted(told.values())


def _cells_of_table(rows: Sequence[tuple[int, dict[str, Any]]]) -> Iterator[Problem]:
    try:
        from rlver.components.domain.tables import table_faults
        from rlver.components.rollout.dialogue_table import DialogueTable
    except ModuleNotFoundError as error:
        if error.name not in {"pandas", "pandera"}:
            raise
        return  # a small installation: pydantic's own words stand
    for index, column, reason in table_faults(DialogueTable, [row for _, row in rows]):
        yield Problem(rows[index][0], column, reason)


def _cells(line: int, error: ValidationError) -> Iterator[Problem]:
    for one in error.errors():
        value, what = one["input"], one["msg"]
        is_plain = value is None or isinstance(value, str | int | float)
        got = f", got {value!r:.60}" if is_plain and one["type"] != "missing" else ""
        yield Problem(line, ".".join(map(str, one["loc"])), f"{what}{got}")


def _lines(numbers: Sequence[int]) -> str:
    """`line 7`, `lines 2, 4-6`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    said = ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
    return f"line{'s' if len(numbers) > 1 else ''} {said}"


def summary(dialogues: Sequence[Dialogue]) -> str:
    """How dialogues ended, in one line."""
    finals = [dialogue.emotion_final for dialogue in dialogues if dialogue.emotion_final is not None]
    if not finals:
        return f"{len(dialogues)} dialogues, none of them scorable"
    success = sum(final >= SUCCESS for final in finals) / len(finals)
    failure = sum(final < FAILURE for final in finals) / len(finals)
    mean = sum(finals) / len(finals)
    return f"{len(dialogues)} dialogues, final emotion {mean:.1f}, success {success:.0%}, failure {failure:.0%}"
