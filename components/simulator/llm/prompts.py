"""The prompts: text files of our own in `prompts/`, named `<part>[.<difficulty>].<language>.<version>.txt`.

`${name}` in a file is a place for a value. A value is never read for places itself, so no text of a persona or a dialogue can
open one. Whoever edits a file changes the digest that every transcript carries; a new meaning gets a new version.
"""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files
from string import Template

VERSION = "v1"
LANGUAGES = ("en", "zh")
DIFFICULTIES = ("vanilla", "challenging")


def fill(name: str, **values: str) -> str:
    """The prompt `name` (as `appraise.vanilla.en`) with its values. Raises KeyError for a place without a value."""
    return _template(name).substitute(values)


@cache
def digest() -> str:
    """Eight hex digits over all prompt files of this version."""
    folder = files(__package__).joinpath("prompts")
    found = sorted((file.name, file.read_bytes()) for file in folder.iterdir() if file.name.endswith(f".{VERSION}.txt"))
    return hashlib.sha256(repr(found).encode()).hexdigest()[:8]


@cache
def _template(name: str) -> Template:
    return Template(files(__package__).joinpath("prompts", f"{name}.{VERSION}.txt").read_text(encoding="utf-8").strip())
