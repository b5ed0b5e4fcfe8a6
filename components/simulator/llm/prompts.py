"""The prompts of the LLM user: text files of our own in `prompts/`, named `<part>[.<difficulty>].<language>.<version>.txt`."""

from __future__ import annotations

from functools import cache

from components.prompts import Prompts

VERSION = "v1"
LANGUAGES = ("en", "zh")
DIFFICULTIES = ("vanilla", "challenging")

PROMPTS = Prompts(__package__, VERSION)
fill = PROMPTS.fill
digest = cache(PROMPTS.digest)
