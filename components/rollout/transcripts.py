"""Reading transcript files for scoring: every line is checked, and the first bad one stops with file and line.

Dialogues that are finished while others are still being held: kept on disk as they end, so that an interruption loses only the rest.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from rlver.components.domain.emotion import EmotionRules, ImpossibleDialogue, check_arithmetic, check_stops
from rlver.components.domain.files import BadFile, read_jsonl, write_text_atomically
from rlver.components.domain.transcript import Dialogue


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


@dataclass(frozen=True)
class FinishedDialogues:
    """`path` grows by a line a dialogue; `fingerprint` stands for everything that decides what is said."""

    path: Path
    fingerprint: str

    def resume(self) -> dict[str, Dialogue]:
        """The dialogues finished earlier with the same fingerprint, by id; a line that was cut off is dropped. Call before `add`."""
        finished = self._earlier()
        lines = [json.dumps({"fingerprint": self.fingerprint}), *(dialogue.model_dump_json() for dialogue in finished.values())]
        write_text_atomically(self.path, "".join(f"{line}\n" for line in lines))
        return finished

    def add(self, dialogue: Dialogue) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(dialogue.model_dump_json() + "\n")

    def discard(self) -> None:
        """The whole result is written elsewhere now."""
        self.path.unlink(missing_ok=True)

    def _earlier(self) -> dict[str, Dialogue]:
        if not self.path.is_file():
            return {}
        head, *lines = self.path.read_text(encoding="utf-8", errors="replace").split("\n")
        if head != json.dumps({"fingerprint": self.fingerprint}):
            return {}
        finished: dict[str, Dialogue] = {}
        for line in lines:
            try:
                dialogue = Dialogue.model_validate_json(line)
            except ValidationError:
                break
            finished[dialogue.dialogue_id] = dialogue
        return finished


def summary(dialogues: Sequence[Dialogue], rules: EmotionRules) -> str:
    """How dialogues ended, in one line."""
    finals = [dialogue.emotion_final for dialogue in dialogues if dialogue.emotion_final is not None]
    if not finals:
        return f"{len(dialogues)} dialogues, none of them scorable"
    success = sum(final >= rules.ceiling for final in finals) / len(finals)
    failure = sum(final < rules.floor for final in finals) / len(finals)
    mean = sum(finals) / len(finals)
    return f"{len(dialogues)} dialogues, final emotion {mean:.1f}, success {success:.0%}, failure {failure:.0%}"
