"""Dialogues that are finished while others are still being held: kept on disk as they end, so that an interruption loses only the rest.

The first line names what the dialogues were held with. A file that was begun with anything else is not continued.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from components.dialogue.transcript import Dialogue
from components.files import write_text_atomically


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
