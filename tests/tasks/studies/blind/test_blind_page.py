"""The page's server over HTTP: what it tells, what it keeps, whom it refuses."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from blind_page import HOST, SECOND, ScriptedPolicy, answer, client, message, talking
from blind_study import SECRETS, comparing
from starlette.testclient import TestClient

from rlver.components.domain.protocols import ContextFull, PolicyUnavailable
from rlver.tasks.studies.blind.answer_file import AnswerFile
from rlver.tasks.studies.blind.answers import Choice
from rlver.tasks.studies.blind.page import FILES, MOST_BODY, Page


@pytest.fixture
def page(answers: AnswerFile) -> TestClient:
    return client(Page(comparing(answers), None, None, ()))


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


def test_an_answer_to_another_pair_than_the_one_that_was_shown_is_refused(page: TestClient, answers: AnswerFile) -> None:
    """A page that was left open while another comparison was begun, or whose pair came for the person before."""
    first, second = (page.get("/api/pair", params={"rater": "ann", "place": place}).json()["pair"] for place in (0, 1))
    refused = page.post("/api/answer", json=answer(pair=second))
    assert refused.status_code == 409 and "not the pair that was shown" in refused.json()["error"]
    assert not any(isinstance(row, Choice) for row in answers.rows)
    assert page.post("/api/answer", json=answer(pair=first)).is_success
    assert [row.pair_id for row in answers.rows if isinstance(row, Choice)] == [first]


def test_a_double_click_counts_once(page: TestClient, answers: AnswerFile) -> None:
    told = [page.post("/api/answer", json=answer()).json() for _ in range(2)]
    assert told[0] == told[1] and sum(isinstance(row, Choice) for row in answers.rows) == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"confidence": 4}, {"confidence": "2"}, {"choice": "a"}, {"place": -1}, {"place": 99}, {"rater": ""}, {"rater": "x" * 41},
        {"rater": "a\u0000b"}, {"answer_id": "1"}, {"reason": "x" * 2001}, {"more": 1}, {"seconds": -1}, {"pair": ""}, {"pair": 1},
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
