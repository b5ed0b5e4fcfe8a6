"""Think-then-say: the prompt that asks for it, the split that hides the thought, the check of the format.

The thought never reaches the user. A reply whose tags are broken has no part that is safe to show, so the user gets silence and
the format gate can act on it (the RLVER paper scores such dialogues 0; its code shows the thoughts to the user instead).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.resources import files

OPEN, CLOSE = "<think>", "</think>"
_THINK_THEN_SAY = re.compile(rf"\s*{OPEN}(?P<think>.*?){CLOSE}(?P<reply>.*)", re.DOTALL)


@dataclass(frozen=True)
class Said:
    """One policy turn, split. `well_formed` is False when tags are missing, doubled or empty, or nothing is said."""

    think: str | None
    reply: str
    well_formed: bool


def system_prompt(thinking: bool, language: str = "en") -> str:
    """The system message of the policy, for thinking or direct replies to a user who speaks `language` (en or zh)."""
    name = "think" if thinking else "direct"
    return files("rlver.components.domain").joinpath("prompts", f"{name}.{language}.txt").read_text(encoding="utf-8").strip()


def separate_thought(text: str) -> tuple[str | None, str]:
    """(thought, reply) of text that any model wrote: its thought ends at the last closing tag, or never ends. Text without tags stays
    as it is; otherwise no tag, and nothing that was thought, is in the reply."""
    if OPEN not in text and CLOSE not in text:
        return None, text
    finished, _, rest = text.rpartition(CLOSE)
    reply, _, unfinished = rest.partition(OPEN)
    thoughts = (finished.replace(OPEN, "").strip(), unfinished.strip())
    return "\n".join(thought for thought in thoughts if thought) or None, reply.strip()


def said_in(text: str, thinking: bool, reasoning: str | None = None) -> Said:
    """Thought and reply of what any model wrote, and of the `reasoning` that its server gave apart.

    Well-formed: something is said, and a thought is there if one was asked for. Text without any tag is the reply, also where a thought was
    asked for: many servers keep the thought, or call it reasoning.
    """
    written, reply = separate_thought(text)
    think = "\n\n".join(part.strip() for part in (reasoning, written) if part and part.strip()) or None
    return Said(think, reply.strip(), well_formed=bool(reply.strip()) and (think is not None or not thinking))


def split_thought(text: str, thinking: bool) -> Said:
    """Split sampled text into thought and reply. Total: every string gives a Said, and no thought ever ends up in `reply`.

    Thinking: `<think>thought</think>reply` with exactly one pair of tags. Direct: no tags at all.
    """
    tags = text.count(OPEN) + text.count(CLOSE)
    if not thinking:
        return Said(None, text.strip(), well_formed=bool(text.strip())) if tags == 0 else Said(text.strip(), "", well_formed=False)
    match = _THINK_THEN_SAY.fullmatch(text)
    if match is None or tags != 2:
        return Said(text.strip() or None, "", well_formed=False)
    think, reply = match["think"].strip(), match["reply"].strip()
    return Said(think or None, reply, well_formed=bool(think and reply))
