"""Other words for every cue: the same hint at the same need, in sentences that no training user ever says (cues.yaml)."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from random import Random

from ruamel.yaml import YAML

from components.personas.persona import HiddenNeed, Persona
from components.simulator import scripted


@cache
def cues_of(package: str) -> dict[HiddenNeed, list[str]]:
    """The cues in the `cues.yaml` of a package."""
    return {HiddenNeed(need): cues for need, cues in YAML(typ="safe").load(files(package).joinpath("cues.yaml").read_text("utf-8")).items()}


def in_unseen_cues(text: str, persona: Persona, random: Random) -> str:
    """Each cue of `text` replaced by the one in the same place of the other list, so that none is said twice."""
    role = persona.story.other.role if persona.story else "friend"  # as the speaker fills it in
    known, unseen = (cues_of(package)[persona.hidden_need] for package in (scripted.__name__, __package__))
    for cue, other in zip(known, unseen, strict=True):
        text = text.replace(cue.format(role=role), other.format(role=role))
    return text
