"""Whole dialogues with LLM users over a scripted endpoint: calls, seeds, openings, repairs, failures."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import pytest
from llm_dialogue import RULES, hold, simulator, user_messages
from scripted_endpoint import ONE_CALL, TWO_CALLS, ScriptedEndpoint, step_of, usual

from rlver.components.domain.kinds import Wanted
from rlver.components.domain.persona import Persona
from rlver.components.domain.protocols import About, Exchange, SimulatorUnavailable, UserSession
from rlver.components.domain.transcript import Dialogue, StopReason
from rlver.components.endpoint.chat import ChatRequest, EndpointUnavailable
from rlver.components.users.llm.kind import APPRAISER, SPEAKER, ModelSection
from rlver.components.users.llm.questions import Openings, call_seed


@pytest.mark.parametrize("difficulty", ["vanilla", "challenging"])
def test_a_dialogue_appraises_and_speaks_in_the_persona_s_language(persona: Persona, difficulty: str) -> None:
    endpoint = ScriptedEndpoint()
    dialogue = hold(simulator(endpoint, difficulty=difficulty), persona)
    assert (dialogue.stop_reason, dialogue.error) == (StopReason.TURN_LIMIT, None)
    assert [turn.emotion for turn in dialogue.turns] == [44, 48, 52] and dialogue.emotion_final == 52
    asked = [] if persona.first_line else ["speak"]
    assert endpoint.steps == [*asked, "appraise", "speak", "appraise", "speak", "appraise"], "nothing is said after the last turn"
    message = {"en": "ugh, same as ever. The kettle broke too", "zh": "唉，还不是老样子，水壶也坏了"}[persona.language]
    assert [turn.user for turn in dialogue.turns] == [persona.first_line or message, message, message]
    assert all(turn.appraisal and turn.appraisal.change == 4 and turn.appraisal.evidence == () for turn in dialogue.turns)
    assert {turn.cue for turn in dialogue.turns} == {None}, "nobody knows whether a message hints at the need"
    assert Dialogue.model_validate_json(dialogue.model_dump_json()) == dialogue


def test_one_call_can_give_appraisal_and_message(persona: Persona) -> None:
    endpoint = ScriptedEndpoint()
    dialogue = hold(simulator(endpoint, ONE_CALL), persona)
    assert endpoint.steps == [*([] if persona.first_line else ["speak"]), *["combined"] * 3]
    assert [turn.emotion for turn in dialogue.turns] == [44, 48, 52]
    assert dialogue.turns[1].user == dialogue.turns[2].user


def test_one_half_is_asked_for_itself_alone(english: Persona) -> None:
    wanted = Wanted("vanilla", parameters=ONE_CALL, endpoint=(endpoint := ScriptedEndpoint()))
    appraiser, speaker = APPRAISER.make(wanted), SPEAKER.make(wanted)
    felt = asyncio.run(appraiser.appraiser(About(english), 1).appraise([Exchange("my piano is gone", "oh no")], 40))
    assert felt.change == 4 and endpoint.steps == ["appraise"]
    assert " combined=" not in f"{appraiser.tag.version}{speaker.tag.version}", "nobody is asked for both at once"


def test_appraiser_and_speaker_are_asked_with_their_own_values(english: Persona) -> None:
    endpoint = ScriptedEndpoint()
    hold(simulator(endpoint), english)
    for request in endpoint.requests:
        wanted = TWO_CALLS.appraiser if step_of(request) == "appraise" else TWO_CALLS.speaker
        assert (
            ModelSection(model=request.model, temperature=request.temperature, top_p=request.top_p, max_tokens=request.max_tokens) == wanted
        )
        assert request.attempt == 0 and request.schema and request.schema["additionalProperties"] is False
        assert [message.role for message in request.messages] == ["system", "user"]


def test_the_schema_asks_for_every_key_and_bounds_the_change(english: Persona) -> None:
    endpoint = ScriptedEndpoint()
    hold(simulator(endpoint), english)
    appraise, speak = endpoint.requests[0].schema, endpoint.requests[1].schema
    assert appraise and appraise["required"] == ["content", "target", "activity", "feeling", "change"]
    assert appraise["properties"]["change"] == {"maximum": 10, "minimum": -10, "title": "Change", "type": "integer"}
    assert speak and speak["required"] == ["thinking", "draft", "message", "wants_to_end"]
    json.dumps([appraise, speak])


def test_the_appraiser_hears_the_emotion_before_the_reply_and_the_speaker_the_tier_after_it(english: Persona) -> None:
    changes = iter((10, 10, 10, 1))
    endpoint = ScriptedEndpoint(lambda request: usual(request, next(changes) if step_of(request) == "appraise" else 0))
    hold(simulator(endpoint), english, replace(RULES, max_turns=4))
    texts = user_messages(endpoint)
    assert [text.splitlines()[0] for text in texts] == [
        "The person's emotion before the last reply: 40 of 100.", "The person's tier now: B",
        "The person's emotion before the last reply: 50 of 100.", "The person's tier now: B",
        "The person's emotion before the last reply: 60 of 100.", "The person's tier now: A",
        "The person's emotion before the last reply: 70 of 100.",
    ]  # fmt: skip


def test_history_grows_and_the_last_exchange_stands_apart(english: Persona) -> None:
    def data(text: str) -> dict[str, list[dict[str, str]]]:
        return json.loads(text.split("<dialogue_data>\n")[1].split("\n</dialogue_data>")[0])

    endpoint = ScriptedEndpoint()
    hold(simulator(endpoint, difficulty="challenging"), english)
    texts = user_messages(endpoint)
    assert data(texts[0])["earlier"] == [] and len(data(texts[4])["earlier"]) == 4
    assert data(texts[4])["last_exchange"] == [
        {"speaker": "person", "text": "ugh, same as ever. The kettle broke too"},
        {"speaker": "other", "text": "reply 2 to d"},
    ]
    endpoint = ScriptedEndpoint()
    hold(simulator(endpoint), english)
    texts = user_messages(endpoint)
    assert [piece["speaker"] for piece in data(texts[4])["dialogue"]] == ["person", "other"] * 3
    assert data(texts[3])["appraisal"] == {
        "objective": {"target": "They asked how my week was"},
        "subjective": {"activity": "They asked how my week was", "feeling": "They asked how my week was"},
    }


def test_the_end_flag_ends_a_dialogue_and_words_do_not(english: Persona) -> None:
    says_bye = ScriptedEndpoint(lambda request: usual(request, message="ok bye, goodbye then"))
    assert hold(simulator(says_bye), english).stop_reason is StopReason.TURN_LIMIT
    leaves = ScriptedEndpoint(lambda request: usual(request, wants_to_end=True))
    dialogue = hold(simulator(leaves), english)
    assert dialogue.stop_reason is StopReason.GOODBYE and len(dialogue.turns) == 1 and dialogue.emotion_final == 44


def test_the_ends_of_emotion_stop_without_another_message(english: Persona) -> None:
    for change, stop, turns in ((10, StopReason.EMOTION_CEILING, 6), (-10, StopReason.EMOTION_FLOOR, 4)):
        endpoint = ScriptedEndpoint(lambda request, change=change: usual(request, change))  # type: ignore[misc]
        dialogue = hold(simulator(endpoint), english, replace(RULES, max_turns=10))
        assert (dialogue.stop_reason, len(dialogue.turns)) == (stop, turns)
        assert endpoint.steps[-1] == "appraise"


def test_seeds_follow_from_persona_seed_turn_and_step_alone(english: Persona) -> None:
    def seeds(seed: int) -> list[int | None]:
        endpoint = ScriptedEndpoint()
        hold(simulator(endpoint), english, seed=seed)
        return [request.seed for request in endpoint.requests]

    assert (
        seeds(5)
        == seeds(5)
        == [
            call_seed(english.persona_id, 5, turn, step)
            for turn, step in ((1, "appraise"), (1, "speak"), (2, "appraise"), (2, "speak"), (3, "appraise"))
        ]
    )
    assert not set(seeds(5)) & set(seeds(6))
    assert len({call_seed(*key) for key in (("a", 1, 1, "x"), ("b", 1, 1, "x"), ("a", 2, 1, "x"), ("a", 1, 2, "x"), ("a", 1, 1, "y"))}) == 5
    assert all(0 <= call_seed("p", 1, turn, "speak") < 2**31 for turn in range(100))


def test_same_answers_same_dialogue(english: Persona) -> None:
    first, second = ScriptedEndpoint(), ScriptedEndpoint()
    assert hold(simulator(first), english) == hold(simulator(second), english)
    assert first.requests == second.requests


def test_a_fixed_first_line_is_said_without_a_call(english: Persona) -> None:
    endpoint = ScriptedEndpoint()
    opened = asyncio.run(simulator(endpoint).session(english, 1).open())
    assert (opened.text, endpoint.requests) == (english.first_line, [])


async def opened(sessions: list[UserSession]) -> list[str]:
    return [utterance.text for utterance in await asyncio.gather(*(session.open() for session in sessions))]


def test_all_dialogues_of_a_persona_share_one_opening_call(chinese: Persona) -> None:
    endpoint = ScriptedEndpoint()
    user = simulator(endpoint)
    texts = asyncio.run(opened([user.session(chinese, seed) for seed in range(8)]))
    texts += asyncio.run(opened([user.session(chinese, 9)]))  # also from another event loop
    assert len(endpoint.requests) == 1 and set(texts) == {"唉，还不是老样子，水壶也坏了"}
    other = ScriptedEndpoint()
    asyncio.run(simulator(other).session(chinese, 77).open())
    assert other.requests == endpoint.requests, "no seed of a dialogue is in the question, so a cache answers it for all"


@pytest.mark.parametrize("steps", range(1, 8))
def test_a_dialogue_that_comes_just_when_the_opening_is_answered_does_not_ask_again(steps: int) -> None:
    openings, answers = Openings(), iter(["first", "second"])

    async def ask() -> str:
        answer = next(answers)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return answer

    async def late() -> str:
        for _ in range(steps):
            await asyncio.sleep(0)
        return await openings.of("p", ask)

    async def both() -> list[str]:
        return await asyncio.gather(openings.of("p", ask), late())

    assert asyncio.run(both()) == ["first", "first"]


def test_a_failed_opening_fails_those_who_waited_and_is_asked_again_later(chinese: Persona) -> None:
    answers = iter([EndpointUnavailable("down"), usual])

    def answer(request: ChatRequest) -> str | Exception:
        given = next(answers)
        return given(request) if callable(given) else given

    endpoint = ScriptedEndpoint(answer)
    user = simulator(endpoint)

    async def both() -> list[object]:
        return list(await asyncio.gather(*(user.session(chinese, seed).open() for seed in (1, 2)), return_exceptions=True))

    assert [type(one) for one in asyncio.run(both())] == [SimulatorUnavailable] * 2
    assert asyncio.run(user.session(chinese, 3).open()).text and len(endpoint.requests) == 2


def test_a_cancelled_dialogue_does_not_take_the_opening_from_the_others(chinese: Persona) -> None:
    endpoint = ScriptedEndpoint()
    user = simulator(endpoint)

    async def one_gives_up() -> str:
        impatient, patient = (asyncio.create_task(user.session(chinese, seed).open()) for seed in (1, 2))
        await asyncio.sleep(0)
        impatient.cancel()
        return (await patient).text

    assert asyncio.run(one_gives_up()) and len(endpoint.requests) == 1
