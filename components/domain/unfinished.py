"""Results that end one by one, dialogues or answers, are kept on disk as they end: an interruption loses only the rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ValidationError

from rlver.components.domain.files import jsonl_line, write_jsonl

Result = TypeVar("Result", bound=BaseModel)
MADE_WITH = "made_with.json"  # in a folder OUT.partial, where what is unfinished takes several files: what decides the result


@dataclass(frozen=True)
class Unfinished(Generic[Result]):
    """OUT.partial beside `out`: a line with `made_with`, which stands for everything that decides the results, then one a result."""

    out: Path
    made_with: Mapping[str, Any]
    kind: type[Result]

    @property
    def path(self) -> Path:
        return self.out.with_name(f"{self.out.name}.partial")

    def resume(self) -> list[Result]:
        """What was finished earlier with the same head; a line that was cut off, and what follows it, is dropped. Call before `add`."""
        finished = self._earlier()
        write_jsonl(self.path, [self.made_with, *map(_row, finished)])
        return finished

    def add(self, result: Result) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(jsonl_line(_row(result)))

    def discard(self) -> None:
        """The whole result is written elsewhere now."""
        self.path.unlink(missing_ok=True)

    def _earlier(self) -> list[Result]:
        if not self.path.is_file():
            return []
        head, *lines = self.path.read_bytes().split(b"\n")
        finished: list[Result] = []
        for line in lines if head + b"\n" == jsonl_line(self.made_with).encode() else ():
            try:
                finished.append(self.kind.model_validate_json(line))
            except ValidationError:
                break
        return finished


def _row(result: BaseModel) -> dict[str, Any]:
    return result.model_dump(mode="json")
