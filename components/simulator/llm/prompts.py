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


class Prompts:
    """The files in `prompts/` of a package."""

    def __init__(self, package: str, version: str) -> None:
        self.version = version
        self._folder = files(package).joinpath("prompts")
        self.template = cache(self._read)

    def fill(self, name: str, /, **values: str) -> str:
        """The prompt `name` (as `appraise.vanilla.en`) with its values. Raises KeyError for a place without a value."""
        return self.template(name).substitute(values)

    def digest(self) -> str:
        """Eight hex digits over all prompt files of this version."""
        found = sorted((file.name, file.read_bytes()) for file in self._folder.iterdir() if file.name.endswith(f".{self.version}.txt"))
        return hashlib.sha256(repr(found).encode()).hexdigest()[:8]

    def _read(self, name: str) -> Template:
        return Template(self._folder.joinpath(f"{name}.{self.version}.txt").read_text(encoding="utf-8").strip())


PROMPTS = Prompts(__package__, VERSION)
fill = PROMPTS.fill
digest = cache(PROMPTS.digest)
