"""Re-deriving transcripts, and appraising those of others: the same replies give the same emotions, and a forgery shows."""

from __future__ import annotations

from typing import Any

import pytest
from fakes import REPLIES, dialogues_of, difference_of, people, scripted_dialogues

from rlver.components.domain.emotion import EmotionRules, apply_change, check_arithmetic
from rlver.components.domain.persona import HiddenNeed, Persona
from rlver.components.domain.protocols import About, UnfamiliarUser, now
from rlver.components.domain.transcript import Dialogue, SimulatorTag, StopReason, Turn
from rlver.components.formats.foreign import Recording, recording_of
from rlver.components.replay.reappraisal import UnreadableLanguage, reappraise
from rlver.components.replay.verification import NotRederivable, first_difference
from rlver.components.users.scripted.appraiser import Listener, listener_of
from rlver.components.users.scripted.simulator import VERSION, ScriptedAppraiser, ScriptedSimulator
from rlver.components.users.together import Together

RULES, VANILLA = EmotionRules(), ScriptedAppraiser("vanilla")


@pytest.fixture(scope="module")
def personas() -> dict[str, Persona]:
    return {persona.persona_id: persona for persona in people()[1]}


@pytest.fixture(scope="module")
def dialogues() -> list[Dialogue]:
    return scripted_dialogues()


def forged(dialogue: Dialogue, turn: int, **changes: Any) -> Dialogue:
    """The dialogue with one turn changed; `appraisal__x` reaches into the appraisal."""
    turns = list(dialogue.turns)
    inner = {name.removeprefix("appraisal__"): value for name, value in changes.items() if name.startswith("appraisal__")}
    outer = {name: value for name, value in changes.items() if not name.startswith("appraisal__")}
    if inner:
        appraisal = turns[turn].appraisal
        assert appraisal is not None
        outer["appraisal"] = appraisal.model_copy(update=inner)
    turns[turn] = turns[turn].model_copy(update=outer)
    return dialogue.model_copy(update={"turns": tuple(turns)})


@pytest.mark.parametrize("difficulty", ["vanilla", "challenging"])
def test_what_the_scripted_user_said_and_felt_is_derived_again_in_full(difficulty: str, personas: dict[str, Persona]) -> None:
    held = scripted_dialogues(difficulty=difficulty)
    assert len({dialogue.hidden_need for dialogue in held}) == 8
    for dialogue in held:
        reread = Dialogue.model_validate_json(dialogue.model_dump_json())
        assert difference_of(reread, personas) is None


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"appraisal__change": 9, "emotion": 49}, "appraisal.change"),
        ({"appraisal__feeling": "over the moon"}, "appraisal.feeling"),
        ({"appraisal__content": "The reply is wonderful."}, "appraisal.content"),
        ({"appraisal__evidence": ()}, "appraisal.evidence 1"),
        ({"emotion": 99}, "emotion"),
        ({"user": "I feel splendid."}, "user"),
        ({"cue": None}, "cue"),
    ],
)
def test_every_derived_field_that_was_changed_is_found(
    changes: dict[str, Any], what: str, dialogues: list[Dialogue], personas: dict[str, Persona]
) -> None:
    difference = difference_of(forged(dialogues[0], 1, **changes), personas)
    assert difference is not None
    assert (difference.dialogue_id, difference.turn, difference.what) == (dialogues[0].dialogue_id, 2, what)
    name = what.removeprefix("appraisal.")
    if name in ("change", "feeling", "content"):
        honest = dialogues[0].turns[1].appraisal
        assert (difference.expected, difference.found) == (getattr(honest, name), changes[f"appraisal__{name}"])
        assert f"turn 2: {what}: expected {difference.expected!r}, found {difference.found!r}" in str(difference)


def test_a_better_reply_put_in_afterwards_does_not_fit_what_the_user_felt(dialogues: list[Dialogue], personas: dict[str, Persona]) -> None:
    assert dialogues[1].turns[2].assistant != REPLIES[0]
    difference = difference_of(forged(dialogues[1], 2, assistant="I hate you. Get over it, it is your own fault."), personas)
    assert difference is not None and difference.turn == 3


def test_a_dialogue_cut_short_by_a_goodbye_that_was_never_said_is_found(dialogues: list[Dialogue], personas: dict[str, Persona]) -> None:
    whole = next(dialogue for dialogue in dialogues if len(dialogue.turns) > 4)
    short = whole.model_copy(update={"turns": whole.turns[:2], "emotion_final": whole.turns[1].emotion, "stop_reason": StopReason.GOODBYE})
    check_arithmetic(short)
    difference = difference_of(short, personas)
    assert difference is not None and difference.turn == 3
    assert difference.expected == whole.turns[2].user


def test_a_dialogue_that_goes_on_after_its_users_goodbye_is_found(personas: dict[str, Persona]) -> None:
    user, (persona, *_) = ScriptedSimulator("vanilla"), personas.values()
    session, emotion, turns, goodbyes = user.session(persona, 1), 40, list[Turn](), list[bool]()
    for number in range(10):
        said = now(session.speak(emotion) if number else session.open())
        appraisal = now(session.appraise("Get over it, it is your own fault."))
        emotion = apply_change(emotion, appraisal.change)
        turns.append(
            Turn(user=said.text, assistant="Get over it, it is your own fault.", cue=said.cue, emotion=emotion, appraisal=appraisal)
        )
        goodbyes.append(said.wants_to_end)
    left = goodbyes.index(True)
    for stop, kept in ((StopReason.TURN_LIMIT, 10), (StopReason.GOODBYE, 10), (StopReason.GOODBYE, left)):
        held = Dialogue(
            dialogue_id="d", persona_id=persona.persona_id, hidden_need=persona.hidden_need, policy="p", seed=1, simulator=user.tag,
            emotion_start=40, emotion_final=turns[kept - 1].emotion, stop_reason=stop, turns=tuple(turns[:kept]),
        )  # fmt: skip
        difference = difference_of(held, personas)
        if kept == left:
            assert difference is None
        else:
            assert difference is not None and (difference.turn, difference.what, difference.expected) == (left + 1, "user", "goodbye")


def test_a_dialogue_that_failed_is_derived_as_far_as_it_went(dialogues: list[Dialogue], personas: dict[str, Persona]) -> None:
    whole = dialogues[0]
    last = whole.turns[2].model_copy(update={"appraisal": None, "emotion": None})
    failed = whole.model_copy(
        update={"turns": (*whole.turns[:2], last), "emotion_final": None, "error": "x", "stop_reason": StopReason.FAILED}
    )
    assert difference_of(failed, personas) is None
    assert difference_of(forged(failed, 0, emotion=77), personas) is not None


@pytest.mark.parametrize(
    ("update", "message"),
    [
        ({"simulator": SimulatorTag(kind="sage", difficulty="vanilla", version="recorded")}, "its user was sage"),
        (
            {"simulator": SimulatorTag(kind="scripted", difficulty="vanilla", version="scripted-0")},
            f"made by scripted scripted-0, here that is {VERSION}: verify with",
        ),
        ({"simulator": SimulatorTag(kind="scripted", difficulty="brutal", version=VERSION)}, "brutal"),
        ({"persona_id": "nobody"}, "persona nobody is not in the personas file"),
        ({"hidden_need": "a hug"}, "hidden_need is a hug, but the persona's is"),
        ({"hidden_need": None}, "hidden_need is None, but the persona's is"),
    ],
)
def test_what_cannot_be_derived_here_is_said_so(
    update: dict[str, Any], message: str, dialogues: list[Dialogue], personas: dict[str, Persona]
) -> None:
    with pytest.raises(NotRederivable, match=message):
        difference_of(dialogues[0].model_copy(update=update), personas)


def test_a_dialogue_that_began_elsewhere_is_derived_from_there(personas: dict[str, Persona]) -> None:
    """Ended by what was felt: from 40 the same replies would go on."""
    user = Together(VANILLA, ScriptedSimulator("vanilla"), 15)
    sad = dialogues_of(user, people()[1][:4], lambda number, turn: REPLIES[turn % 2], EmotionRules(15))
    assert {dialogue.emotion_start for dialogue in sad} == {15} and all(dialogue.turns for dialogue in sad)
    assert all(first_difference(one, personas, lambda tag, is_appraiser: user) is None for one in sad)


def test_an_appraiser_that_abstains_derives_nothing(dialogues: list[Dialogue], personas: dict[str, Persona]) -> None:
    class Abstaining(ScriptedAppraiser):
        def appraiser(self, about: About, seed: int = 0) -> Any:
            raised = UnfamiliarUser("like nobody it knows")

            class One:
                async def appraise(self, exchanges: Any, emotion: int) -> Any:
                    raise raised

            return One()

    again = reappraise(recorded(dialogues[0]), personas[dialogues[0].persona_id], VANILLA, RULES)
    with pytest.raises(NotRederivable, match="like nobody it knows"):
        first_difference(again, personas, lambda tag, is_appraiser: Abstaining("vanilla"))


def recorded(dialogue: Dialogue, **changes: Any) -> Recording:
    return recording_of({**dialogue.model_dump(mode="json"), **changes}, "n")


def test_our_own_dialogues_are_appraised_as_they_were(dialogues: list[Dialogue], personas: dict[str, Persona]) -> None:
    for dialogue in dialogues:
        again = reappraise(recorded(dialogue), personas[dialogue.persona_id], VANILLA, RULES)
        assert again.turns == dialogue.turns and again.emotion_final == dialogue.emotion_final
        assert again.stop_reason == dialogue.stop_reason
        assert again.simulator == SimulatorTag(kind="scripted-appraiser", difficulty="vanilla", version=VERSION)
        assert difference_of(again, personas) is None
        assert difference_of(again, personas, "scripted:challenging") is None, "it is the tag that says how demanding"


def test_an_unknown_need_is_appraised_without_one_and_stays_as_it_was_written(dialogues: list[Dialogue]) -> None:
    for need in ("a hug", None):
        again = reappraise(recorded(dialogues[0], hidden_need=need), None, VANILLA, RULES)
        assert again.hidden_need == need and again.simulator.kind == "scripted-appraiser-without-persona"
        check_arithmetic(again)
        assert difference_of(again, {}) is None
        told = {item.what for turn in again.turns if turn.appraisal for item in turn.appraisal.evidence}
        assert "may_serve" in told and not told & {"serves_need", "misses_need", "near_need"}


def test_a_known_need_is_used_without_a_persona(dialogues: list[Dialogue], personas: dict[str, Persona]) -> None:
    assert listener_of(About(None, "deep_empathy")) == Listener(HiddenNeed.DEEP_EMPATHY)
    persona = people()[1][0]
    assert listener_of(About(persona, "a hug")) == Listener(persona.hidden_need, persona.persona_class, persona.traits)
    again = reappraise(recorded(dialogues[0]), None, VANILLA, RULES)
    told = {item.what for turn in again.turns if turn.appraisal for item in turn.appraisal.evidence}
    assert told & {"serves_need", "misses_need"} and not any(what.startswith("class:") for what in told)
    assert difference_of(again, personas) is None, "what was appraised without a persona is verified without one"


def test_every_reply_is_appraised_even_where_the_user_would_have_left() -> None:
    turns = [{"user": f"He said it again on day {day}.", "assistant": "Whatever."} for day in range(1, 13)]
    again = reappraise(recording_of({"turns": turns}, "n"), None, VANILLA, RULES)
    assert len(again.turns) == 12 and all(turn.appraisal for turn in again.turns)
    assert again.stop_reason is StopReason.EMOTION_FLOOR and again.emotion_final == 0
    check_arithmetic(again)


def test_the_recorded_start_is_kept_and_where_there_is_none_the_rules_say() -> None:
    row: dict[str, Any] = {"turns": [{"user": "My sister left.", "assistant": "I am so sorry, that sounds hard."}]}
    assert reappraise(recording_of(row, "n"), None, VANILLA, RULES).emotion_start == 40
    started = reappraise(recording_of({**row, "emotion_start": 70}, "n"), None, VANILLA, RULES)
    assert (started.emotion_start, started.emotion_final, started.stop_reason) == (70, 71, StopReason.GOODBYE)


def test_a_failed_dialogue_stays_failed(dialogues: list[Dialogue]) -> None:
    again = reappraise(recorded(dialogues[0], error="ContextFull: x"), None, VANILLA, RULES)
    assert again.stop_reason is StopReason.FAILED and again.emotion_final is None and again.error == "ContextFull: x"
    check_arithmetic(again)


def test_another_language_is_refused_rather_than_scored_as_gibberish() -> None:
    chinese = recording_of({"turns": [{"user": "最近有些事搞得我头大，张浩那个态度。", "assistant": "听你这么说。"}]}, "n")
    with pytest.raises(UnreadableLanguage, match="reads English only"):
        reappraise(chinese, None, VANILLA, RULES)


def test_an_unknown_difficulty_is_refused(dialogues: list[Dialogue]) -> None:
    with pytest.raises(ValueError, match="unknown difficulty 'brutal'"):
        reappraise(recorded(dialogues[0]), None, ScriptedAppraiser("brutal"), RULES)
