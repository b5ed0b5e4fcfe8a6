"""Appraising recorded dialogues anew with the scripted appraiser: the words stay, emotions and reasons are derived.

The user's words were chosen by somebody else, so nothing here can be told about the *speaker*; the tag says so. Every reply is
appraised, also those after a point where the scripted user would have left: cutting them off would throw recorded data away.

Appraising recorded dialogues anew with a distilled appraiser. A user it knows nothing of makes the dialogue unscorable.
"""

from __future__ import annotations

from collections.abc import Sequence

from rlver.components.domain.emotion import HIGHEST, LOWEST, EmotionRules, apply_change, stop_reason
from rlver.components.domain.persona import HiddenNeed, Persona
from rlver.components.domain.transcript import Appraisal, Dialogue, SimulatorTag, StopReason, Turn
from rlver.components.formats.foreign import Recording
from rlver.components.users.distilled.appraiser import DistilledAppraiser
from rlver.components.users.distilled.features import Original, known_from
from rlver.components.users.distilled.model import Distilled, UnfamiliarUser
from rlver.components.users.scripted.appraiser import Exchange, Listener, appraise
from rlver.components.users.scripted.effects import DIFFICULTIES
from rlver.components.users.scripted.reading import read_reply
from rlver.components.users.scripted.simulator import VERSION

INFORMED, BLIND = "scripted-appraiser", "scripted-appraiser-without-persona"
_FEW_WORDS = 20  # fewer words of a user, none of them common, may be slang and not another language


class UnreadableLanguage(ValueError):
    """The dialogue is not in English, the only language the scripted appraiser reads; its points would mean nothing."""


def listener_of(hidden_need: str | None, persona: Persona | None) -> Listener:
    """What is known of the user: need, class and traits of the persona, else the recorded need if it is one of the eight, else nothing."""
    if persona is not None:
        return Listener(persona.hidden_need, persona.persona_class, persona.traits)
    return Listener(next((need for need in HiddenNeed if need.value == hidden_need), None))


def appraisals_of(listener: Listener, difficulty: str, turns: Sequence[Turn]) -> list[Appraisal]:
    """The scripted appraisal of every reply, each in the light of the exchanges before it."""
    exchanges = [Exchange(turn.user, turn.assistant) for turn in turns]
    return [
        appraise(listener, DIFFICULTIES[difficulty], exchanges[:number], exchange.user, exchange.reply)
        for number, exchange in enumerate(exchanges)
    ]


def reappraise(recording: Recording, persona: Persona | None, difficulty: str, rules: EmotionRules) -> Dialogue:
    """The transcript of a recording. Raises UnreadableLanguage, and ValueError for an unknown difficulty.

    A dialogue that was recorded as failed stays failed: its turns are appraised, but it has no final emotion.
    """
    if difficulty not in DIFFICULTIES:
        raise ValueError(f"unknown difficulty {difficulty!r}: choose one of {', '.join(DIFFICULTIES)}")
    if not _is_english(recording):
        raise UnreadableLanguage(f"{recording.dialogue_id}: the scripted appraiser reads English only")
    listener = listener_of(recording.hidden_need, persona)
    start = rules.start if recording.emotion_start is None else recording.emotion_start
    if not LOWEST <= start <= HIGHEST:
        raise ValueError(f"{recording.dialogue_id}: emotion_start must be {LOWEST}..{HIGHEST}, got {start}")
    emotion, turns = start, list[Turn]()
    for turn, appraisal in zip(recording.turns, appraisals_of(listener, difficulty, recording.turns), strict=True):
        emotion = apply_change(emotion, appraisal.change)
        turns.append(turn.model_copy(update={"emotion": emotion, "appraisal": appraisal}))
    ended = stop_reason(emotion, len(turns), wants_to_end=len(turns) < rules.max_turns, rules=rules)
    return Dialogue(
        dialogue_id=recording.dialogue_id,
        persona_id=recording.persona_id,
        hidden_need=listener.need.value if listener.need else recording.hidden_need,
        policy=recording.policy,
        seed=recording.seed,
        simulator=SimulatorTag(kind=BLIND if persona is None else INFORMED, difficulty=difficulty, version=VERSION),
        emotion_start=start,
        emotion_final=None if recording.error else emotion,
        stop_reason=StopReason.FAILED if recording.error or ended is None else ended,
        error=recording.error,
        turns=tuple(turns),
    )


def goes_on_after_its_end(dialogue: Dialogue, rules: EmotionRules) -> bool:
    """Whether the emotion reached the ceiling, or fell below the floor, before the last reply: held with this appraiser, the dialogue would
    have ended there, and with the emotion of that moment."""
    earlier = [turn.emotion for turn in dialogue.turns[:-1] if turn.emotion is not None]
    return any(stop_reason(emotion, 0, wants_to_end=False, rules=rules) is not None for emotion in earlier)


def _is_english(recording: Recording) -> bool:
    """Whether the users' words are. A few words of slang say little, so the replies are read with them; smileys and silence say nothing.

    What a policy writes is its own business otherwise, and is judged.
    """
    said = "\n".join(turn.user for turn in recording.turns)
    letters = [character for character in said if character.isalpha()]
    if not letters:
        return True
    reading = read_reply(said)
    if reading.word_count and reading.is_english:
        return True
    is_short = reading.word_count < _FEW_WORDS and sum(map(str.isascii, letters)) > len(letters) / 2
    return is_short and read_reply("\n".join([said, *(turn.assistant for turn in recording.turns)])).is_english


LEARNED_INFORMED, LEARNED_BLIND = "distilled-appraiser", "distilled-appraiser-without-persona"
ANY_DIFFICULTY = "recorded"  # that of the users it was learned from


def reappraise_learned(
    recording: Recording, original: Original, persona: Persona | None, model: Distilled, rules: EmotionRules
) -> Dialogue:
    """The transcript of a recording, every reply appraised, also after a point where the user would have left; `original` is its imported
    record, if it has one."""
    start = rules.start if recording.emotion_start is None else recording.emotion_start
    turns, unfamiliar = learned_turns(recording.hidden_need, original, persona, model, start, recording.turns)
    failure = recording.error or unfamiliar
    emotion = turns[-1].emotion if turns else start
    assert emotion is not None
    ended = stop_reason(emotion, len(turns), wants_to_end=len(turns) < rules.max_turns, rules=rules)
    return Dialogue(
        dialogue_id=recording.dialogue_id,
        persona_id=recording.persona_id,
        hidden_need=persona.hidden_need.value if persona else recording.hidden_need,
        policy=recording.policy,
        seed=recording.seed,
        simulator=SimulatorTag(
            kind=LEARNED_BLIND if persona is None else LEARNED_INFORMED, difficulty=ANY_DIFFICULTY, version=model.version
        ),
        emotion_start=start,
        emotion_final=None if failure else emotion,
        stop_reason=StopReason.FAILED if failure or ended is None else ended,
        error=failure,
        turns=turns,
        original=dict(original) if original is not None else None,
    )


def learned_turns(
    need: str | None, original: Original, persona: Persona | None, model: Distilled, start: int, recorded: tuple[Turn, ...]
) -> tuple[tuple[Turn, ...], str | None]:
    """The recorded turns with emotions and reasons; and, if the appraiser abstains, why, with the turns before that."""
    appraiser, emotion, turns = DistilledAppraiser(model, known_from(need, original, persona)), start, list[Turn]()
    for number, turn in enumerate(recorded, start=1):
        try:
            appraisal = appraiser.appraise(turn.user, turn.assistant)
        except UnfamiliarUser as error:
            return tuple(turns), f"turn {number}: {error}"
        emotion = apply_change(emotion, appraisal.change)
        turns.append(turn.model_copy(update={"emotion": emotion, "appraisal": appraisal}))
    return tuple(turns), None
