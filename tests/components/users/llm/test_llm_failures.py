"""A language model as the user that answers badly, late or not at all: repaired within bounds, or unscorable."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from fakes import people
from llm_dialogue import RULES, hold, policy, simulator, user_messages
from scripted_endpoint import ONE_CALL, TWO_CALLS, ScriptedEndpoint, appraisal, speech, step_of, usual

from rlver.components.domain.persona import Persona
from rlver.components.domain.transcript import StopReason
from rlver.components.endpoint.chat import BudgetExceeded, ChatRequest, EndpointRefused, EndpointUnavailable, NotRecorded
from rlver.components.rollout.episode import Job, Rollout, run_episodes
from rlver.components.users.llm.kind import LLMUserSection


def bad_then_good(bad: str, times: int, step: str) -> Callable[[ChatRequest], str]:
    left = [times]

    def answer(request: ChatRequest) -> str:
        if step_of(request) == step and left[0]:
            left[0] -= 1
            return bad
        return usual(request)

    return answer


def changed(**values: Any) -> LLMUserSection:
    return LLMUserSection.model_validate({**TWO_CALLS.model_dump(), **values})


@pytest.mark.parametrize("step", ["appraise", "speak"])
def test_a_repair_shows_the_reason_and_asks_under_another_key(step: str, persona: Persona) -> None:
    person = persona.model_copy(update={"first_line": persona.first_line or "最近有点烦"})
    endpoint = ScriptedEndpoint(bad_then_good("Change: +10", 2, step))
    dialogue = hold(simulator(endpoint), person)
    assert dialogue.error is None and dialogue.emotion_final == 52
    tries = [request for request in endpoint.requests if step_of(request) == step][:3]
    assert [request.attempt for request in tries] == [0, 1, 2]
    assert len({request.seed for request in tries}) == len({request.messages[1].content for request in tries}) == 3, "never the same again"
    for request in tries[1:]:
        assert request.messages[0] == tries[0].messages[0] and [message.role for message in request.messages] == ["system", "user"]
        added = request.messages[1].content.removeprefix(tries[0].messages[1].content)
        assert "must be exactly one JSON object with nothing around it" in added and "Change: +10" not in added


def test_repairs_are_bounded_and_then_the_dialogue_is_unscorable(english: Persona) -> None:
    for max_repairs in (0, 1, 3):
        endpoint = ScriptedEndpoint(lambda request: json.dumps(appraisal(change=11)) if step_of(request) == "appraise" else usual(request))
        dialogue = hold(simulator(endpoint, changed(max_repairs=max_repairs)), english)
        assert len(endpoint.requests) == 1 + max_repairs
        assert (dialogue.stop_reason, dialogue.emotion_final, dialogue.turns) == (StopReason.FAILED, None, ())
        assert dialogue.error == (
            f"SimulatorUnavailable: turn 1: the appraisal: no usable answer in {1 + max_repairs} attempts; "
            "the last: change: Input should be less than or equal to 10"
        )


def test_a_message_that_gives_the_need_away_never_gets_out(english: Persona) -> None:
    telling = "what I want is attentive listening"
    endpoint = ScriptedEndpoint(lambda request: json.dumps(speech(message=telling)) if step_of(request) == "speak" else usual(request))
    dialogue = hold(simulator(endpoint), english)
    assert dialogue.error and dialogue.error.endswith("the last: message gives the hidden need away")
    assert telling not in dialogue.model_dump_json() and english.need_text not in dialogue.model_dump_json()
    once = ScriptedEndpoint(bad_then_good(json.dumps(speech(message=telling)), 1, "speak"))
    assert hold(simulator(once), english).error is None


def test_an_answer_that_was_cut_off_is_not_used_though_it_can_be_read(english: Persona) -> None:
    endpoint = ScriptedEndpoint(finish_reason="length")
    dialogue = hold(simulator(endpoint), english)
    assert dialogue.error and dialogue.error.endswith("it was cut off because it was too long; be brief")


def test_an_answer_that_was_cut_off_and_is_no_json_is_told_what_to_write(english: Persona) -> None:
    endpoint = ScriptedEndpoint(lambda request: "The person's emotion before the last reply: 40 of 100.", finish_reason="length")
    assert str(hold(simulator(endpoint), english).error).endswith("the last: must be exactly one JSON object with nothing around it")


def test_the_form_of_an_answer_given_back_is_no_answer(english: Persona) -> None:
    blank = dict.fromkeys(("content", "target", "activity", "feeling"), "...")
    endpoint = ScriptedEndpoint(lambda request: json.dumps({**blank, "change": 5}) if step_of(request) == "appraise" else usual(request))
    assert str(hold(simulator(endpoint), english).error).endswith("the last: content must say something")
    endpoint = ScriptedEndpoint(lambda request: json.dumps(speech(draft="…")) if step_of(request) == "speak" else usual(request))
    assert str(hold(simulator(endpoint), english).error).endswith("the last: draft must say something")


@pytest.mark.parametrize(
    "error", [EndpointUnavailable("no answer in 30 s"), EndpointRefused("context too long"), NotRecorded("not recorded")]
)
@pytest.mark.parametrize("step", ["appraise", "speak"])
def test_a_failing_endpoint_makes_an_unscorable_dialogue(error: Exception, step: str, english: Persona) -> None:
    endpoint = ScriptedEndpoint(lambda request: error if step_of(request) == step else usual(request))
    dialogue = hold(simulator(endpoint), english)
    assert dialogue.stop_reason is StopReason.FAILED and dialogue.emotion_final is None
    assert dialogue.error and dialogue.error.endswith(str(error)) and dialogue.error.startswith("SimulatorUnavailable: turn 1: the ")
    assert len(endpoint.requests) == (1 if step == "appraise" else 2), "the endpoint has its own bounded retries; the session adds none"


def test_an_exceeded_budget_stops_everything(english: Persona) -> None:
    endpoint = ScriptedEndpoint(lambda request: BudgetExceeded("9.99 of 10.00 spent"))
    user = simulator(endpoint)
    jobs = [Job(f"d{number}", english, number) for number in range(4)]
    with pytest.raises(BudgetExceeded, match=r"9\.99"):
        asyncio.run(run_episodes(jobs, user, policy(), RULES, 4))


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
    rollouts: list[Rollout] = asyncio.run(run_episodes(jobs, simulator(endpoint), policy(), RULES, concurrency=8))
    assert count["bad"] > 20
    assert {(one.dialogue.error, one.dialogue.emotion_final) for one in rollouts} == {(None, 52)}
    assert len(endpoint.requests) == 16 * 5 + count["bad"]


def test_sessions_are_independent(english: Persona) -> None:
    """Two dialogues of one persona at once: what is said in one is not in the other's prompts."""
    endpoint = ScriptedEndpoint()
    jobs = [Job("left", english, 1), Job("right", english, 2)]
    asyncio.run(run_episodes(jobs, simulator(endpoint), policy(), RULES, 2))
    assert not [text for text in user_messages(endpoint) if "to left" in text and "to right" in text]


def test_the_tag_names_prompts_and_models() -> None:
    tag = simulator(ScriptedEndpoint(), difficulty="challenging").tag
    assert (tag.kind, tag.difficulty) == ("llm", "challenging")
    assert tag.version.startswith("llm-4 prompts=v1-") and tag.version.endswith(" appraiser=appraiser-1 speaker=speaker-1")
    assert simulator(ScriptedEndpoint(), ONE_CALL).tag.version.endswith(" combined=appraiser-1")
    nameless = TWO_CALLS.model_copy(update={"appraiser": TWO_CALLS.appraiser.model_copy(update={"model": None})})
    assert "appraiser" not in simulator(ScriptedEndpoint(), nameless).tag.version


def test_nothing_is_logged_and_no_exception_carries_a_prompt(english: Persona, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="rlver.components")
    logging.getLogger("rlver.components.users.llm").debug("this is seen")
    endpoint = ScriptedEndpoint(lambda request: english.need_text)
    dialogue = hold(simulator(endpoint), english)
    assert dialogue.error and english.need_text not in dialogue.error and english.portrait not in dialogue.error
    assert [record.getMessage() for record in caplog.records if record.name.startswith("rlver.components")] == ["this is seen"]


def test_what_cannot_work_is_refused_before_any_call(english: Persona) -> None:
    with pytest.raises(ValueError, match="unknown difficulty 'hard'"):
        simulator(ScriptedEndpoint(), difficulty="hard")
    with pytest.raises(ValueError, match="language must be one of en, zh, got 'de'"):
        simulator(ScriptedEndpoint()).session(english.model_copy(update={"language": "de"}), 1)
    with pytest.raises(ValueError, match="appraiser and speaker must have the same values"):
        changed(combined=True)


def test_speaking_before_appraising_is_a_mistake_of_the_caller(english: Persona) -> None:
    with pytest.raises(RuntimeError, match="speak comes after appraise"):
        asyncio.run(simulator(ScriptedEndpoint()).session(english, 1).speak(40))
