"""Whole dialogues with LLM users over a scripted endpoint: calls, seeds, openings, repairs, failures."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest
from fakes import FakeSampler, LetterChat, people
from scripted_endpoint import ONE_CALL, TWO_CALLS, ScriptedEndpoint, appraisal, speech, step_of, usual

from components.dialogue.episode import Job, Rollout, hold_dialogue
from components.dialogue.rollouts import hold_dialogues
from components.dialogue.transcript import Dialogue, StopReason
from components.endpoint.chat import BudgetExceeded, ChatRequest, EndpointRefused, EndpointUnavailable, NotRecorded
from components.personas.persona import Persona
from components.policy.token_policy import Speaking, TokenPolicy
from components.simulator.emotion import EmotionRules
from components.simulator.llm.parameters import LLMUserParameters, ModelParameters
from components.simulator.llm.questions import call_seed
from components.simulator.llm.simulator import LLMSimulator
from components.simulator.protocol import SimulatorUnavailable, UserSession

RULES = EmotionRules(start=40, ceiling=100, floor=10, max_turns=3)
SPEAKING = Speaking(policy="p", thinking=False, strip_thoughts=False, max_reply_tokens=200, max_context_tokens=100_000)


def policy() -> TokenPolicy:
    return TokenPolicy(FakeSampler(), LetterChat(), SPEAKING)


def simulator(endpoint: ScriptedEndpoint, parameters: LLMUserParameters = TWO_CALLS, difficulty: str = "vanilla") -> LLMSimulator:
    return LLMSimulator(endpoint, difficulty, parameters, RULES.start)


def hold(user: LLMSimulator, persona: Persona, rules: EmotionRules = RULES, seed: int = 5) -> Dialogue:
    session = user.session(persona, seed)
    job = Job("d", persona, seed)
    return asyncio.run(hold_dialogue(job, session, user.tag, policy(), rules)).dialogue


def user_messages(endpoint: ScriptedEndpoint) -> list[str]:
    return [request.messages[-1].content for request in endpoint.requests]


@pytest.mark.parametrize("difficulty", ["vanilla", "challenging"])
def test_a_dialogue_appraises_and_speaks_in_the_persona_s_language(persona: Persona, difficulty: str) -> None:
    endpoint = ScriptedEndpoint()
    dialogue = hold(simulator(endpoint, difficulty=difficulty), persona)
    assert (dialogue.stop_reason, dialogue.failure) == (StopReason.TURN_LIMIT, None)
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


def test_appraiser_and_speaker_are_asked_with_their_own_values(english: Persona) -> None:
    endpoint = ScriptedEndpoint()
    hold(simulator(endpoint), english)
    for request in endpoint.requests:
        wanted = TWO_CALLS.appraiser if step_of(request) == "appraise" else TWO_CALLS.speaker
        assert ModelParameters(request.model, request.temperature, request.top_p, request.max_tokens) == wanted
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


def bad_then_good(bad: str, times: int, step: str) -> Callable[[ChatRequest], str]:
    left = [times]

    def answer(request: ChatRequest) -> str:
        if step_of(request) == step and left[0]:
            left[0] -= 1
            return bad
        return usual(request)

    return answer


@pytest.mark.parametrize("step", ["appraise", "speak"])
def test_a_repair_shows_the_reason_and_asks_under_another_key(step: str, persona: Persona) -> None:
    person = persona.model_copy(update={"first_line": persona.first_line or "最近有点烦"})
    endpoint = ScriptedEndpoint(bad_then_good("Change: +10", 2, step))
    dialogue = hold(simulator(endpoint), person)
    assert dialogue.failure is None and dialogue.emotion_final == 52
    tries = [request for request in endpoint.requests if step_of(request) == step][:3]
    assert [request.attempt for request in tries] == [0, 1, 2] and len({request.seed for request in tries}) == 1
    for request in tries[1:]:
        assert request.messages[0] == tries[0].messages[0] and [message.role for message in request.messages] == ["system", "user"]
        added = request.messages[1].content.removeprefix(tries[0].messages[1].content)
        assert "must be exactly one JSON object with nothing around it" in added and "Change: +10" not in added


def test_repairs_are_bounded_and_then_the_dialogue_is_unscorable(english: Persona) -> None:
    for max_repairs in (0, 1, 3):
        endpoint = ScriptedEndpoint(lambda request: json.dumps(appraisal(change=11)) if step_of(request) == "appraise" else usual(request))
        dialogue = hold(simulator(endpoint, replace(TWO_CALLS, max_repairs=max_repairs)), english)
        assert len(endpoint.requests) == 1 + max_repairs
        assert (dialogue.stop_reason, dialogue.emotion_final, dialogue.turns) == (StopReason.FAILED, None, ())
        assert dialogue.failure == (
            f"SimulatorUnavailable: turn 1: the appraisal: no usable answer in {1 + max_repairs} attempts; "
            "the last: change: Input should be less than or equal to 10"
        )


def test_a_message_that_gives_the_need_away_never_gets_out(english: Persona) -> None:
    telling = "what I want is attentive listening"
    endpoint = ScriptedEndpoint(lambda request: json.dumps(speech(message=telling)) if step_of(request) == "speak" else usual(request))
    dialogue = hold(simulator(endpoint), english)
    assert dialogue.failure and dialogue.failure.endswith("the last: message gives the hidden need away")
    assert telling not in dialogue.model_dump_json() and english.need_text not in dialogue.model_dump_json()
    once = ScriptedEndpoint(bad_then_good(json.dumps(speech(message=telling)), 1, "speak"))
    assert hold(simulator(once), english).failure is None


def test_an_answer_that_was_cut_off_is_not_used_though_it_can_be_read(english: Persona) -> None:
    endpoint = ScriptedEndpoint(finish_reason="length")
    dialogue = hold(simulator(endpoint), english)
    assert dialogue.failure and dialogue.failure.endswith("it was cut off because it was too long; be brief")


@pytest.mark.parametrize(
    "error", [EndpointUnavailable("no answer in 30 s"), EndpointRefused("context too long"), NotRecorded("not recorded")]
)
@pytest.mark.parametrize("step", ["appraise", "speak"])
def test_a_failing_endpoint_makes_an_unscorable_dialogue(error: Exception, step: str, english: Persona) -> None:
    endpoint = ScriptedEndpoint(lambda request: error if step_of(request) == step else usual(request))
    dialogue = hold(simulator(endpoint), english)
    assert dialogue.stop_reason is StopReason.FAILED and dialogue.emotion_final is None
    assert dialogue.failure and dialogue.failure.endswith(str(error)) and dialogue.failure.startswith("SimulatorUnavailable: turn 1: the ")
    assert len(endpoint.requests) == (1 if step == "appraise" else 2), "the endpoint has its own bounded retries; the session adds none"


def test_an_exceeded_budget_stops_everything(english: Persona) -> None:
    endpoint = ScriptedEndpoint(lambda request: BudgetExceeded("9.99 of 10.00 spent"))
    user = simulator(endpoint)
    jobs = [Job(f"d{number}", english, number) for number in range(4)]
    with pytest.raises(BudgetExceeded, match=r"9\.99"):
        asyncio.run(hold_dialogues(jobs, user, policy(), RULES, 4))


def test_a_third_of_bad_answers_breaks_no_dialogue_and_scores_none_from_a_bad_one() -> None:
    """Every third answer to a first attempt is useless, in turn by each way of being so."""
    bad = ["", "{", json.dumps(appraisal(change=99)), json.dumps(appraisal("zh")), json.dumps(speech(message="Message: x")), "Change: +10"]
    count = Counter[str]()

    def answer(request: ChatRequest) -> str:
        count["all"] += 1
        if request.attempt == 0 and count["all"] % 3 == 0:
            count["bad"] += 1
            return bad[count["bad"] % len(bad)]
        return usual(request)

    endpoint = ScriptedEndpoint(answer)
    jobs = [Job(f"d{number}", persona, number) for number, persona in enumerate(people()[0])]
    rollouts: list[Rollout] = asyncio.run(hold_dialogues(jobs, simulator(endpoint), policy(), RULES, concurrency=8))
    assert count["bad"] > 20
    assert {(one.dialogue.failure, one.dialogue.emotion_final) for one in rollouts} == {(None, 52)}
    assert len(endpoint.requests) == 16 * 5 + count["bad"]


def test_sessions_are_independent(english: Persona) -> None:
    """Two dialogues of one persona at once: what is said in one is not in the other's prompts."""
    endpoint = ScriptedEndpoint()
    jobs = [Job("left", english, 1), Job("right", english, 2)]
    asyncio.run(hold_dialogues(jobs, simulator(endpoint), policy(), RULES, 2))
    assert not [text for text in user_messages(endpoint) if "to left" in text and "to right" in text]


def test_the_tag_names_prompts_and_models() -> None:
    tag = simulator(ScriptedEndpoint(), difficulty="challenging").tag
    assert (tag.kind, tag.difficulty) == ("llm", "challenging")
    assert tag.version.startswith("llm-1 prompts=v1-") and tag.version.endswith(" appraiser=appraiser-1 speaker=speaker-1")
    assert simulator(ScriptedEndpoint(), ONE_CALL).tag.version.endswith(" combined=appraiser-1")


def test_nothing_is_logged_and_no_exception_carries_a_prompt(english: Persona, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="components")
    endpoint = ScriptedEndpoint(lambda request: english.need_text)
    dialogue = hold(simulator(endpoint), english)
    assert dialogue.failure and english.need_text not in dialogue.failure and english.portrait not in dialogue.failure
    assert not [record for record in caplog.records if record.name.startswith("components")]


def test_what_cannot_work_is_refused_before_any_call(english: Persona) -> None:
    with pytest.raises(ValueError, match="unknown difficulty 'hard'"):
        simulator(ScriptedEndpoint(), difficulty="hard")
    with pytest.raises(ValueError, match="language must be one of en, zh, got 'de'"):
        simulator(ScriptedEndpoint()).session(english.model_copy(update={"language": "de"}), 1)
    with pytest.raises(ValueError, match="appraiser and speaker must have the same values"):
        replace(TWO_CALLS, combined=True)
    for wrong in ({"max_repairs": -1}, {"max_quoted_characters": 0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            replace(TWO_CALLS, **wrong)
    for name, value in (("model", " "), ("temperature", -0.1), ("top_p", 0.0), ("top_p", 1.1), ("max_tokens", 0)):
        with pytest.raises(ValueError, match=name):
            replace(TWO_CALLS.appraiser, **{name: value})  # type: ignore[arg-type]


def test_speaking_before_appraising_is_a_mistake_of_the_caller(english: Persona) -> None:
    with pytest.raises(RuntimeError, match="speak comes after appraise"):
        asyncio.run(simulator(ScriptedEndpoint()).session(english, 1).speak(40))
