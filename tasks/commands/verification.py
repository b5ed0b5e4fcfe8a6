"""`rlver verify FOLDER`: every transcript of a run, with the personas, parameters and stored answers that lie beside it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from rlver.components.domain.files import BadFile
from rlver.components.domain.persona import Persona
from rlver.components.personas.schema import validate_file
from rlver.components.replay.verification import NotRederivable
from rlver.components.settings.settings import load_settings
from rlver.tasks.commands.dialogues import USER_ANSWERS, verified

PLACES = ("transcripts", "paper/transcripts", "recipes/transcripts", "pretrained/transcripts", "bigger/transcripts")
_ENDING = re.compile(r"(-s\d+|-raw)$")  # a seed of the paper run; a larger model as it came


def verify_folder(folder: Path) -> Iterator[tuple[str, bool]]:
    """A line for each file, and whether it was derived again; one that nobody can derive here is told and passed over.

    Raises Differs at the first difference, BadFile for a broken file or a folder without transcripts.
    """
    files = [file for place in PLACES for file in sorted((folder / place).rglob("*.jsonl"))]
    if not files:
        raise BadFile(f"{folder}: no transcripts in {', '.join(PLACES)}; name the folder of a run, or a transcript file")

    @cache
    def people(needed: bool) -> Mapping[str, Persona]:
        found = sorted(file for place in ("data/personas", "*/data/personas", "recipes/data/*") for file in folder.glob(f"{place}/*.jsonl"))
        if needed and not found:
            raise BadFile(
                f"{folder / 'data' / 'personas'}: no personas (*.jsonl) there, so no dialogue can be derived again; put the files of personas there"
            )
        return {persona.persona_id: persona for file in found for persona in validate_file(file)}

    params = folder / "params.yaml"
    for file in files:
        try:
            yield verified(file, people, load_settings(params, _variant(file, folder)), folder / USER_ANSWERS), True
        except NotRederivable as error:
            yield f"NOT VERIFIED {error}", False


def _variant(file: Path, folder: Path) -> str | None:
    """The recipe, or the overlay that file or folder is named after, without what stands at its end; None where there is none."""
    if file.is_relative_to(folder / "recipes"):
        return file.stem
    named = [file.stem, *(parent.name for parent in file.relative_to(folder).parents)]
    known = (name for one in named for name in (one, _ENDING.sub("", one)) if name)
    return next((name for name in known if (folder / "params" / f"{name}.yaml").is_file()), None)
