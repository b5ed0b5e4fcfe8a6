"""Talks with two hidden models: what is said, what is kept, and what happens when something fails."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any

import pytest
from blind_page import FIRST, SECOND, ScriptedPolicy, client, message, talking

from rlver.components.domain.protocols import ContextFull, PolicyUnavailable, Reply
from rlver.components.endpoint.chat import BudgetExceeded, EndpointRefused
from rlver.tasks.studies.blind.answer_file import AnswerFile, NotSaved
from rlver.tasks.studies.blind.answers import PersonSaid, Replied, Row, TalkBegun, TalkVerdict
from rlver.tasks.studies.blind.page import Page
from rlver.tasks.studies.blind.talking import NEVER_CAME, NO_MORE, NO_REPLY, SET_ASIDE, TOO_LONG, NoSuchTalk


def test_both_models_hear_the_same_and_neither_thought_is_shown(answers: AnswerFile) -> None:
    a, b = ScriptedPolicy("a", ["from a"]), ScriptedPolicy("b", ["from b"])
    talk = client(Page(None, talking(answers, a, b), None, ()))
    assert talk.get("/api/talk", params={"rater": "ann"}).json() == {
        "talk": None,
        "messages": [],
        "live": True,
        "ended": None,
        "verdict": None,
    }
    state = talk.post("/api/message", json=message(" I am sad. ")).json()
    state = talk.post("/api/message", json=message("More.", talk=state["talk"], message_id=SECOND)).json()
    assert a.heard == b.heard == ["I am sad.", "More."]
    (begun,) = [row for row in answers.rows if isinstance(row, TalkBegun)]
    left, right = ("from a", "from b") if begun.left == "a" else ("from b", "from a")
    assert [(one["user"], one["left"]["reply"], one["right"]["reply"]) for one in state["messages"]] == [
        ("I am sad.", left, right), ("More.", left, right)
    ]  # fmt: skip
    stored = [row for row in answers.rows if isinstance(row, Replied)]
    assert stored[0].a.think == "secret-thought" and "secret-thought" not in json.dumps(state)
    verdict = {"rater": "ann", "talk": state["talk"], "answer_id": FIRST, "choice": "right", "confidence": 3, "reason": "kind"}
    assert talk.post("/api/verdict", json=verdict).json()["verdict"] == {"choice": "right", "confidence": 3, "reason": "kind"}
    talk.post("/api/verdict", json=verdict)
    talk.post("/api/verdict", json={**verdict, "answer_id": SECOND, "choice": "tie"})
    assert [row.preference for row in answers.rows if isinstance(row, TalkVerdict)] == ["b" if begun.left == "a" else "a", "tie"]


def test_a_model_that_fails_is_one_line_and_the_talk_goes_on(answers: AnswerFile) -> None:
    a = ScriptedPolicy("a", [PolicyUnavailable("gpt-x refused:\nkey sk-1"), RuntimeError("boom"), ContextFull("full"), "back again"])
    b = ScriptedPolicy("b", ["from b"])
    talk = client(Page(None, talking(answers, a, b), None, ()))
    state: dict[str, Any] = {"talk": None}
    for number in range(4):
        state = talk.post("/api/message", json=message(str(number), talk=state["talk"], message_id=f"{number:032x}")).json()
    (begun,) = [row for row in answers.rows if isinstance(row, TalkBegun)]
    side, other = ("left", "right") if begun.left == "a" else ("right", "left")
    assert [one[side]["error"] for one in state["messages"]] == [NO_REPLY, NO_REPLY, TOO_LONG, None]
    assert [one[side]["reply"] for one in state["messages"]] == [None, None, None, "back again"]
    assert [one[other]["reply"] for one in state["messages"]] == ["from b"] * 4
    assert [row.a.error for row in answers.rows if isinstance(row, Replied)] == [
        "PolicyUnavailable: gpt-x refused: key sk-1", "RuntimeError: boom", "ContextFull: full", None
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("error", "stops"), [(BudgetExceeded("none left"), True), (EndpointRefused("wrong key"), True), (PolicyUnavailable("this one"), False)]
)
def test_no_talk_is_begun_after_an_error_that_would_meet_every_talk(answers: AnswerFile, error: Exception, stops: bool) -> None:
    talk = client(Page(None, talking(answers, ScriptedPolicy("a", [error]), ScriptedPolicy("b", ["from b"])), None, ()))
    state = talk.post("/api/message", json=message()).json()
    assert talk.post("/api/message", json=message("More.", talk=state["talk"], message_id=SECOND)).status_code == 200
    begun = talk.post("/api/message", json=message(rater="bo", message_id="3" * 32))
    assert (begun.status_code, begun.json().get("error")) == ((409, NO_MORE) if stops else (200, None))


def test_a_message_sent_twice_is_said_once(answers: AnswerFile) -> None:
    a, b = ScriptedPolicy("a", ["from a"], wait_s=0.05), ScriptedPolicy("b", ["from b"])
    talk = talking(answers, a, b)

    async def twice() -> list[dict[str, Any]]:
        return list(await asyncio.gather(*(talk.speak("ann", None, FIRST, "I am sad.") for _ in range(3))))

    told = asyncio.run(twice())
    assert told[0] == told[1] == told[2] and len(told[0]["messages"]) == 1 and told[0]["messages"][0]["left"]["reply"]
    assert a.heard == ["I am sad."] and sum(isinstance(row, TalkBegun) for row in answers.rows) == 1


def test_a_message_is_written_down_before_anybody_is_asked(answers: AnswerFile) -> None:
    seen: list[list[str]] = []

    @dataclass
    class Watching(ScriptedPolicy):
        async def reply(self, user: str) -> Reply:
            seen.append([line.split('"')[3] for line in answers.path.read_text().splitlines()])
            return await super().reply(user)

    asyncio.run(talking(answers, Watching("a", ["x"]), ScriptedPolicy("b", ["y"])).speak("ann", None, FIRST, "I am sad."))
    assert seen == [["talk", "said"]]


def test_after_a_restart_a_talk_can_be_judged_but_not_gone_on_with(answers: AnswerFile) -> None:
    a, b = ScriptedPolicy("a", ["from a"]), ScriptedPolicy("b", ["from b"])
    before = client(Page(None, talking(answers, a, b), None, ())).post("/api/message", json=message()).json()
    answers.add(
        PersonSaid(at="now", talk_id=before["talk"], message_id=SECOND, text="and then")
    )  # the server died while the models replied
    talk = client(Page(None, talking(answers, a, b), None, ()))
    state = talk.get("/api/talk", params={"rater": "ann"}).json()
    assert not state["live"] and state["messages"][0] == before["messages"][0]
    assert state["messages"][1]["left"] == {"reply": None, "error": NEVER_CAME}
    refused = talk.post("/api/message", json=message(talk=before["talk"], message_id="3" * 32))
    assert refused.status_code == 409 and "restarted" in refused.json()["error"]
    verdict = {"rater": "ann", "talk": state["talk"], "answer_id": FIRST, "choice": "left", "confidence": 1, "reason": ""}
    assert talk.post("/api/verdict", json=verdict).json()["verdict"]["choice"] == "left"
    assert talk.post("/api/leave", json={"rater": "ann"}).json()["messages"] == []
    assert talk.post("/api/message", json=message(message_id="4" * 32)).json()["live"]


def test_nobody_can_join_or_judge_a_talk_of_another(answers: AnswerFile) -> None:
    talk = client(Page(None, talking(answers, ScriptedPolicy("a", ["x"]), ScriptedPolicy("b", ["y"])), None, ()))
    state = talk.post("/api/message", json=message()).json()
    assert talk.post("/api/message", json=message(rater="bo", talk=state["talk"], message_id=SECOND)).status_code == 409
    assert talk.post("/api/message", json=message(rater="bo", message_id=FIRST)).status_code == 409
    verdict = {"rater": "bo", "talk": state["talk"], "answer_id": FIRST, "choice": "left", "confidence": 1, "reason": ""}
    assert talk.post("/api/verdict", json=verdict).status_code == 409


def test_more_talks_than_there_is_room_for_end_the_oldest(answers: AnswerFile) -> None:
    a = ScriptedPolicy("a", ["x"])
    talk = talking(answers, a, ScriptedPolicy("b", ["y"]), most_open=2)
    for number, rater in enumerate(("ann", "bo", "cy")):
        asyncio.run(talk.speak(rater, None, f"{number:032x}", "hello"))
    assert [talk.state(rater)["live"] for rater in ("ann", "bo", "cy")] == [False, True, True]
    assert a.closed == 1


def test_nobodys_talk_ends_for_one_that_is_not_saved(answers: AnswerFile, monkeypatch: pytest.MonkeyPatch) -> None:
    a = ScriptedPolicy("a", ["x"])
    talk = talking(answers, a, ScriptedPolicy("b", ["y"]), most_open=1)
    asyncio.run(talk.speak("ann", None, FIRST, "hello"))

    def full(row: Row) -> None:
        raise NotSaved("no space left on device")

    with monkeypatch.context() as during:
        during.setattr(answers, "add", full)
        with pytest.raises(NotSaved):
            asyncio.run(talk.speak("bo", None, SECOND, "hello"))
    assert talk.state("ann")["live"] and not a.closed
    asyncio.run(talk.speak("bo", None, SECOND, "hello"))
    assert talk.state("ann")["ended"] == SET_ASIDE and a.closed == 1


def test_models_hear_in_which_language_they_are_spoken_to(answers: AnswerFile) -> None:
    a = ScriptedPolicy("a", ["x"])
    talk = talking(answers, a, ScriptedPolicy("b", ["y"]))
    asyncio.run(talk.speak("ann", None, FIRST, "I am sad."))
    talk.leave("ann")
    asyncio.run(talk.speak("ann", None, SECOND, "我很难过"))
    assert a.languages == ["en", "zh"]


def test_a_talk_cannot_be_left_while_models_reply(answers: AnswerFile) -> None:
    talk = talking(answers, ScriptedPolicy("a", ["x"], wait_s=0.2), ScriptedPolicy("b", ["y"]))

    async def leave() -> None:
        speaking = asyncio.create_task(talk.speak("ann", None, FIRST, "hello"))
        await asyncio.sleep(0.05)
        with pytest.raises(NoSuchTalk, match="wait for the replies"):
            talk.leave("ann")
        assert len((await speaking)["messages"]) == 1

    asyncio.run(leave())


def test_each_side_is_on_the_left_about_half_of_the_time(answers: AnswerFile) -> None:
    talk = talking(answers, ScriptedPolicy("a", ["x"]), ScriptedPolicy("b", ["y"]))
    for number in range(60):
        asyncio.run(talk.speak(f"rater {number}", None, f"{number:032x}", "hello"))
    lefts = [row.left for row in answers.rows if isinstance(row, TalkBegun)]
    assert 15 <= lefts.count("a") <= 45  # outside by chance once in 20,000 times
