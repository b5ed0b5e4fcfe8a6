"""The language that a policy is spoken to in, which decides its system message."""

from __future__ import annotations

from pathlib import Path

from rlver.components.domain.files import BadFile, read_jsonl
from rlver.components.settings.settings import Settings

ENGLISH = "en"  # of all personas that are composed here


def language_of(settings: Settings, root: Path = Path()) -> str:
    """The language (en or zh) of the personas that these settings import, en where they import none. Raises BadFile."""
    imported = settings.personas.imported_test or settings.personas.imported_train
    if imported is None:
        return ENGLISH
    if not (root / imported).is_file():
        raise BadFile(
            f"{imported}: no such file; the language of its personas is that of the system message: `rlver personas import` makes it"
        )
    return language_of_personas(root / imported)


def language_of_personas(path: Path) -> str:
    """That of the first persona of a file, en where it says none. Raises BadFile."""
    return str(next((row.get("language", ENGLISH) for _, row in read_jsonl(path)), ENGLISH))
