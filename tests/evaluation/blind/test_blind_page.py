"""The page's server over HTTP: what it tells, what it keeps, whom it refuses."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from blind_study import SECRETS, comparing
from starlette.testclient import TestClient

from components.evaluation.blind.answers import Choice, Replied, Said, TalkBegun, Verdict
from components.policy.protocol import ContextFull, PolicyUnavailable, Reply, Tokens
from components.policy.thinking import Said as Spoken
from tasks.blind.answer_file import AnswerFile
from tasks.blind.guard import MOST_BODY, Guard, hosts_of
from tasks.blind.page import FILES, Page
from tasks.blind.talking import NEVER_CAME, NO_REPLY, TOO_LONG, NoSuchTalk, Speaker, Talking

HOST = "http://127.0.0.1:7500"
FIRST, SECOND = "1" * 32, "2" * 32


@dataclass
class ScriptedPolicy:
    """Says what it was told; an exception in its script is raised."""

    name: str
    script: list[str | Exception]
    heard: list[str] = field(default_factory=list)
    languages: list[str] = field(default_factory=list)
    closed: int = 0
    wait_s: float = 0.0

    def start(self) -> None: ...

    async def close(self) -> None: ...

    def session(self, dialogue_id: str, seed: int, language: str) -> ScriptedSession:
        self.languages.append(language)
        return ScriptedSession(self)

    async def reply(self, user: str) -> Reply:
        self.heard.append(user)
        await asyncio.sleep(self.wait_s)
        said = self.script[(len(self.heard) - 1) % len(self.script)]
        if isinstance(said, Exception):
            raise said
        return Reply(Spoken("secret-thought", said, True), False, None, None)


@dataclass
class ScriptedSession:
    policy: ScriptedPolicy
    tokens = Tokens()

    async def reply(self, user: str) -> Reply:
        return await self.policy.reply(user)

    def close(self) -> None:
        self.policy.closed += 1


def client(page: Page, host: str = "127.0.0.1", key: str | None = None) -> TestClient:
    return TestClient(Guard(page.app(), hosts_of(host, 7500), key), base_url=HOST, raise_server_exceptions=False)  # type: ignore[arg-type]


@pytest.fixture
def page(answers: AnswerFile) -> TestClient:
    return client(Page(comparing(answers), None, None, ()))


def answer(place: int = 0, **changes: Any) -> dict[str, Any]:
    return {
        "rater": "Ann", "place": place, "answer_id": FIRST, "choice": "left", "confidence": 2, "reason": "", "seconds": 3.0, **changes
    }  # fmt: skip


def talking(file: AnswerFile, a: ScriptedPolicy, b: ScriptedPolicy, most_open: int = 4) -> Talking:
    speakers: dict[Any, Speaker] = {"a": Speaker("secret-policy-a", a), "b": Speaker("secret-policy-b", b)}
    return Talking(speakers, file, lambda: "now", 7, most_open, lambda line: None)


def message(text: str = "I am sad.", **changes: Any) -> dict[str, Any]:
    return {"rater": "Ann", "talk": None, "message_id": FIRST, "text": text, **changes}


def test_nothing_that_names_a_side_is_in_any_answer(answers: AnswerFile) -> None:
    a = ScriptedPolicy("secret-policy-a", ["a says <script>", PolicyUnavailable("secret-policy-a is gone at http://secret-id")])
    b = ScriptedPolicy("secret-policy-b", ["b says", ContextFull("secret-policy-b: 99 of 9")])
    talk = client(Page(comparing(answers), talking(answers, a, b), None, ["a card"]))
    told = [
        talk.get(path)
        for path in [*FILES, "/api/start", "/nowhere", "/api/pair", "/api/pair?rater=x&place=99", "/api/pair?rater=x&place=no"]
    ]
    for rater in ("ann", "bo"):
        told += [talk.get("/api/pair", params={"rater": rater, "place": place}) for place in range(6)]
        told += [talk.post("/api/answer", json=answer(place, rater=rater, answer_id=f"{place:032x}")) for place in range(6)]
        told += [talk.get("/api/pair", params={"rater": rater, "place": place}) for place in [*range(6), ""]]
        told += [talk.post("/api/message", json=message(rater=rater, message_id=f"{ord(rater[0]):032x}"))]
        said = told[-1].json()
        told += [talk.post("/api/message", json=message(rater=rater, talk=said["talk"], message_id=f"{ord(rater[0]) + 99:032x}"))]
        verdict = {key: value for key, value in answer(rater=rater, talk=said["talk"]).items() if key not in ("place", "seconds")}
        told += [
            talk.post("/api/verdict", json={**verdict, "answer_id": f"{ord(rater[0]):032x}"}),
            talk.get("/api/talk", params={"rater": rater}),
        ]
        told += [talk.post("/api/verdict", json={**verdict, "talk": SECOND}), talk.post("/api/leave", json={"rater": rater})]
    assert len(told) > 50 and sum(one.is_success for one in told) > 45
    for one in told:
        for secret in SECRETS:
            assert secret not in one.text and secret not in str(one.headers), (one.url, secret)
    assert not any(re.search(r"\bemotion|persona|policy|need\b|stop_reason", one.text) for one in told if "/api/" in str(one.url))
    assert any("reply a" in one.text for one in told) and any("b says" in one.text for one in told)


def test_one_pair_after_the_other_and_back(page: TestClient, answers: AnswerFile) -> None:
    first = page.get("/api/pair", params={"rater": " ANN "}).json()
    assert (first["place"], first["total"], first["answered"], first["answer"]) == (0, 6, 0, None)
    assert {first["left"][0]["reply"][6], first["right"][0]["reply"][6]} == {"a", "b"}
    assert page.post("/api/answer", json=answer(reason=" warmer ")).json() == {"total": 6, "answered": 1, "next": 1}
    assert page.get("/api/pair", params={"rater": "ann"}).json()["place"] == 1
    back = page.get("/api/pair", params={"rater": "ann", "place": 0}).json()
    assert back["answer"] == {"choice": "left", "confidence": 2, "reason": "warmer"}
    for place in range(6):
        done = page.post("/api/answer", json=answer(place, answer_id=f"{place:032x}")).json()
    assert done == {"total": 6, "answered": 6, "next": None} == page.get("/api/pair", params={"rater": "ann"}).json()
    assert {row.rater for row in answers.rows if isinstance(row, Choice)} == {"ann"}


def test_a_double_click_counts_once(page: TestClient, answers: AnswerFile) -> None:
    told = [page.post("/api/answer", json=answer()).json() for _ in range(2)]
    assert told[0] == told[1] and sum(isinstance(row, Choice) for row in answers.rows) == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"confidence": 4}, {"confidence": "2"}, {"choice": "a"}, {"place": -1}, {"place": 99}, {"rater": ""}, {"rater": "x" * 41},
        {"rater": "a\u0000b"}, {"answer_id": "1"}, {"reason": "x" * 2001}, {"more": 1}, {"seconds": -1},
    ],
)  # fmt: skip
def test_what_is_no_answer_is_refused_and_not_kept(page: TestClient, answers: AnswerFile, changes: dict[str, Any]) -> None:
    told = page.post("/api/answer", json=answer(**changes))
    assert told.status_code in (409, 422) and "\n" not in told.json()["error"]
    assert not any(isinstance(row, Choice) for row in answers.rows)


def test_only_those_who_were_asked_may_answer(answers: AnswerFile) -> None:
    asked = client(Page(comparing(answers), None, ["Ann", " bo "], ()))
    assert asked.get("/api/start", params={"rater": "BO"}).is_success
    assert asked.get("/api/start", params={"rater": "eve"}).status_code == 403
    assert asked.post("/api/answer", json=answer(rater="eve")).status_code == 403
    assert asked.get("/api/pair", params={"rater": "eve"}).status_code == 403


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example:7500"}, 421),  # a name that was bound to this machine's address
        ({"host": "127.0.0.1:7501"}, 421),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://127.0.0.1:8000"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"content-type": "text/plain"}, 415),  # what a form of another page can send unasked
        ({"content-type": "application/x-www-form-urlencoded"}, 415),
    ],
)
def test_other_pages_cannot_answer(page: TestClient, answers: AnswerFile, headers: dict[str, str], status: int) -> None:
    content = json.dumps(answer())
    refused = page.post("/api/answer", content=content, headers={"content-type": "application/json", **headers})
    assert refused.status_code == status
    assert not any(isinstance(row, Choice) for row in answers.rows)
    own = {"content-type": "application/json", "origin": HOST, "sec-fetch-site": "same-origin"}
    assert page.post("/api/answer", content=content, headers=own).is_success


def test_other_pages_cannot_read(page: TestClient) -> None:
    for headers in ({"host": "evil.example:7500"}, {"sec-fetch-site": "cross-site", "sec-fetch-mode": "cors"}):
        assert page.get("/api/pair", params={"rater": "ann"}, headers=headers).status_code in (403, 421)
    followed = page.get("/", headers={"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"})
    assert followed.is_success  # a link in a mail
    assert "access-control-allow-origin" not in followed.headers
    assert page.options("/api/answer", headers={"origin": "https://evil.example"}).status_code == 403


def test_too_much_is_refused(page: TestClient, answers: AnswerFile) -> None:
    assert page.post("/api/answer", json=answer(reason="x" * MOST_BODY)).status_code == 413
    assert not any(isinstance(row, Choice) for row in answers.rows)


def test_every_answer_forbids_foreign_scripts(page: TestClient) -> None:
    for path in ("/", "/page.js", "/api/start", "/nowhere"):
        policy = page.get(path).headers["content-security-policy"]
        assert "default-src 'none'" in policy and "script-src 'self'" in policy and "unsafe" not in policy
    assert page.get("/page.css").headers["content-type"].startswith("text/css")


def test_the_files_need_nothing_from_outside_and_set_text_as_text(page: TestClient) -> None:
    texts = {path: page.get(path).text for path in FILES}
    assert len(texts) == 7 and all(texts.values())
    for path, text in texts.items():
        assert not re.search(r"https?://|innerHTML|insertAdjacentHTML|outerHTML|document\.write|eval\(|\bon[a-z]+=", text), path
    assert '<script type="module" src="/page.js">' in texts["/"] and "style=" not in texts["/"]


def test_a_network_needs_the_key(answers: AnswerFile) -> None:
    made: Callable[[], TestClient] = lambda: client(Page(comparing(answers), None, None, ()), "192.168.1.5", "the-key")  # noqa: E731
    stranger = made()
    assert [stranger.get(path).status_code for path in ("/", "/api/start", "/?key=wrong", "/api/start?key=the-key")] == [403] * 4
    assert stranger.post("/api/answer", json=answer()).status_code == 403
    guest = made()
    opened = guest.get("/?key=the-key", headers={"host": "192.168.1.5:7500"})
    assert opened.is_success and "HttpOnly; SameSite=Strict" in opened.headers["set-cookie"]
    assert guest.get("/api/start", headers={"cookie": "rlver_blind=the-key"}).is_success


def test_both_models_hear_the_same_and_neither_thought_is_shown(answers: AnswerFile) -> None:
    a, b = ScriptedPolicy("a", ["from a"]), ScriptedPolicy("b", ["from b"])
    talk = client(Page(None, talking(answers, a, b), None, ()))
    assert talk.get("/api/talk", params={"rater": "ann"}).json() == {"talk": None, "messages": [], "live": True, "verdict": None}
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
    assert [row.preference for row in answers.rows if isinstance(row, Verdict)] == ["b" if begun.left == "a" else "a", "tie"]


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
    answers.add(Said(at="now", talk_id=before["talk"], message_id=SECOND, text="and then"))  # the server died while the models replied
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
