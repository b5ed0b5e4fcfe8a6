"""The same person in other words: what an appraiser is told about the user, with nothing added and nothing left out.

Sentences that stand side by side change places, the traits are listed the other way round and, in English, common words are exchanged for
words of the same meaning. Need, class, traits and every fact stay.
"""

from __future__ import annotations

import re

from components.personas.persona import Persona

_ENGLISH = {
    "want": "would like", "wants": "would like", "the other side": "the person on the other side", "quickly": "fast", "likes": "enjoys",
    "speaks": "talks", "small": "little", "reply": "answer", "particular": "specific", "truly": "really", "sincerely": "honestly",
    "closely": "attentively", "together": "jointly", "difficulty": "trouble", "a few": "some", "often": "frequently",
    "tends to": "is inclined to",
}  # fmt: skip
_PATTERN = re.compile(rf"\b(?:{'|'.join(sorted(_ENGLISH, key=len, reverse=True))})\b")


def paraphrased(persona: Persona) -> Persona:
    """Deterministic; id, story and everything that the scripted user goes by stay as they are."""
    return persona.model_copy(
        update={
            "need_text": _reworded(persona.need_text, persona),
            "traits": tuple(reversed(persona.traits)),
            "portrait": _reworded(_rearranged(persona.portrait, persona.language), persona),
            "background": _reworded(persona.background, persona),
            "reactions": {key: _reworded(persona.reactions[key], persona) for key in reversed(persona.reactions)},
        }
    )


def _rearranged(text: str, language: str) -> str:
    """The first sentence, which says who it is, then the others from the last to the second."""
    sentences = re.split(r"(?<=[.!?])\s+|(?<=[。！？])|\n+", text)
    first, *others = [sentence for sentence in sentences if sentence]
    return (" " if language == "en" else "\n").join([first, *reversed(others)])


def _reworded(text: str, persona: Persona) -> str:
    return _PATTERN.sub(lambda match: _ENGLISH[match.group()], text) if persona.language == "en" else text
