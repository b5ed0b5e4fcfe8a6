"""Transcripts whose every secret is a word that can be looked for."""

from __future__ import annotations

from rlver.components.domain.transcript import Appraisal, Dialogue, Evidence, SimulatorTag, StopReason, Turn
from rlver.tasks.studies.blind.answer_file import AnswerFile
from rlver.tasks.studies.blind.comparing import Comparing, pairs_of, study_of

SECRETS = ("secret-policy", "secret-thought", "secret-need", "secret-persona", "secret-id", "secret-reason", "secret-version", "4321")


def talk(side: str, persona: int, change: int, *, repeat: int = 0, turns: int = 2) -> Dialogue:
    """A dialogue of side a or b whose emotion moves by `change` every turn; nothing but `user` and `reply` may be shown."""
    emotion, held = 40, []
    for number in range(turns):
        emotion += change
        reasons = (Evidence(step="effect", what="secret-reason", points=change),)
        appraisal = Appraisal(content="secret-reason", target="t", activity="a", feeling="f", change=change, evidence=reasons)
        think = f"secret-thought {side}"
        inside = "<think>secret-thought inside</think>" if number else ""
        held.append(
            Turn(
                user=f"user {persona}.{repeat}.{number}",
                assistant=f"{inside}reply {side}{persona}.{repeat}.{number} <b>&",
                think=think,
                emotion=emotion,
                appraisal=appraisal,
                reply_tokens=4321,
                think_tokens=4321,
            )
        )
    return Dialogue(
        dialogue_id=f"secret-id/{side}/{persona}/{repeat}",
        persona_id=f"secret-persona-{persona:03}",
        hidden_need="secret-need",
        policy=f"secret-policy-{side}",
        seed=7 + repeat,
        simulator=SimulatorTag(kind="scripted", difficulty="vanilla", version="secret-version"),
        emotion_start=40,
        emotion_final=emotion,
        stop_reason=StopReason.TURN_LIMIT,
        turns=tuple(held),
    )


def both(personas: int) -> tuple[list[Dialogue], list[Dialogue]]:
    return [talk("a", n, 1) for n in range(personas)], [talk("b", n, 2) for n in range(personas)]


def comparing(file: AnswerFile, personas: int = 8, most: int = 6, overlap: float = 0.5) -> Comparing:
    pairs = pairs_of(*both(personas)).pairs
    study = study_of(("secret-policy-a", "secret-policy-b"), pairs, 7, most, overlap)
    file.begin(study)
    return Comparing(pairs, study, file, lambda: "2026-01-01T00:00:00+00:00")
