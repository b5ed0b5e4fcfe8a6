"""Appraising recorded dialogues anew with a distilled appraiser. A user it knows nothing of makes the dialogue unscorable."""

from __future__ import annotations

from components.dialogue.foreign import Recording
from components.dialogue.transcript import Dialogue, SimulatorTag, StopReason, Turn
from components.personas.persona import Persona
from components.simulator.distilled.appraiser import Appraiser
from components.simulator.distilled.model import Distilled, UnfamiliarUser
from components.simulator.distilled.moment import Original, known_from
from components.simulator.emotion import EmotionRules, apply_change, stop_reason

INFORMED, BLIND = "distilled-appraiser", "distilled-appraiser-without-persona"
ANY_DIFFICULTY = "recorded"  # that of the users it was learned from


def reappraise_learned(
    recording: Recording, original: Original, persona: Persona | None, model: Distilled, rules: EmotionRules
) -> Dialogue:
    """The transcript of a recording, every reply appraised, also after a point where the user would have left; `original` is its imported
    record, if it has one."""
    start = rules.start if recording.emotion_start is None else recording.emotion_start
    turns, unfamiliar = learned_turns(recording.hidden_need, original, persona, model, start, recording.turns)
    failure = recording.failure or unfamiliar
    emotion = turns[-1].emotion if turns else start
    assert emotion is not None
    ended = stop_reason(emotion, len(turns), wants_to_end=len(turns) < rules.max_turns, rules=rules)
    return Dialogue(
        dialogue_id=recording.dialogue_id,
        persona_id=recording.persona_id,
        hidden_need=persona.hidden_need.value if persona else recording.hidden_need,
        policy=recording.policy,
        seed=recording.seed,
        simulator=SimulatorTag(kind=BLIND if persona is None else INFORMED, difficulty=ANY_DIFFICULTY, version=model.version),
        emotion_start=start,
        emotion_final=None if failure else emotion,
        stop_reason=StopReason.FAILED if failure or ended is None else ended,
        failure=failure,
        turns=turns,
        original=dict(original) if original is not None else None,
    )


def learned_turns(
    need: str | None, original: Original, persona: Persona | None, model: Distilled, start: int, recorded: tuple[Turn, ...]
) -> tuple[tuple[Turn, ...], str | None]:
    """The recorded turns with emotions and reasons; and, if the appraiser abstains, why, with the turns before that."""
    appraiser, emotion, turns = Appraiser(model, known_from(need, original, persona)), start, list[Turn]()
    for number, turn in enumerate(recorded, start=1):
        try:
            appraisal = appraiser.appraise(turn.user, turn.assistant)
        except UnfamiliarUser as error:
            return tuple(turns), f"turn {number}: {error}"
        emotion = apply_change(emotion, appraisal.change)
        turns.append(turn.model_copy(update={"emotion": emotion, "appraisal": appraisal}))
    return tuple(turns), None
