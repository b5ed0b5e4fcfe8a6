"""What somebody sends to the page of `rlver blind`, over bodies without an end to talks without one: nobody is locked out."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import socket
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from blind_page import FIRST, HOST, SECOND, ScriptedPolicy, answer, client, give, message, talking
from blind_server import SERVE, server
from blind_study import comparing
from starlette.testclient import TestClient

from rlver.components.domain.protocols import Reply
from rlver.tasks.runtime.guard import RequestGuard, hosts_of
from rlver.tasks.studies.blind.answer_file import AnswerFile, NotSaved
from rlver.tasks.studies.blind.answers import Replied, TalkBegun, read_answers
from rlver.tasks.studies.blind.page import Page, page_guard
from rlver.tasks.studies.blind.talking import NoSuchTalk

# Cookies. They belong to a host, not to a port: whatever else runs on it sets some, and the browser sends them all, in any order.


@pytest.mark.parametrize(
    "cookies",
    ['_xsrf={"a": 1}; rlver_blind=the-key', "[x]=1; rlver_blind=the-key", "é; rlver_blind=the-key", 'a="b; rlver_blind=the-key'],
)
def test_a_foreign_cookie_before_ours_locks_nobody_out(answers: AnswerFile, cookies: str) -> None:
    network = client(Page(comparing(answers), None, None, ()), "192.168.1.5", "the-key")
    assert network.get("/api/start", headers={"cookie": cookies.encode()}).is_success
    assert network.get("/api/start", headers={"cookie": cookies.replace("the-key", "another").encode()}).status_code == 403


def test_a_cookie_of_the_same_name_before_ours_locks_nobody_out(answers: AnswerFile) -> None:
    network = client(Page(comparing(answers), None, None, ()), "192.168.1.5", "the-key")
    assert network.get("/api/start", headers={"cookie": "rlver_blind=the-key; rlver_blind=another"}).is_success
    assert network.get("/api/start", headers=[("cookie", "a=b"), ("cookie", "rlver_blind=the-key")]).is_success


def test_pages_on_two_ports_of_one_address_keep_their_keys_apart(answers: AnswerFile) -> None:
    jar: dict[str, str] = {}
    asked = Page(comparing(answers), None, None, ())
    for port, key in ((7500, "the-key"), (7501, "another")):
        opened = TestClient(page_guard(asked.app(), hosts_of("192.168.1.5", port), key), base_url=f"http://192.168.1.5:{port}")
        jar |= dict(opened.get("/", params={"key": key}).cookies)
    sent = "; ".join(f"{name}={value}" for name, value in jar.items())
    assert client(asked, "192.168.1.5", "the-key").get("/api/start", headers={"cookie": sent}).is_success


# Requests that no page of ours sends.


@pytest.mark.parametrize("place", ["9" * 5000, "٣", "0" * 10 + "1"])
def test_a_place_that_is_no_number_is_an_error_of_the_request(page: TestClient, place: str) -> None:
    told = page.get("/api/pair", params={"rater": "ann", "place": place})
    assert (told.status_code, told.json()) == (409, {"error": "a place is a number"})


def test_pages_under_another_scheme_of_our_address_are_others(page: TestClient) -> None:
    headers = {"content-type": "application/json", "origin": HOST.replace("http", "https")}
    assert page.post("/api/answer", content=json.dumps(answer()), headers=headers).status_code == 403


def test_other_pages_are_told_nothing_by_browsers_that_only_send_an_origin(page: TestClient) -> None:
    assert page.get("/api/pair?rater=ann", headers={"origin": "http://evil.example"}).status_code == 403


def test_the_page_may_be_asked_for_its_head(page: TestClient) -> None:
    assert page.head("/").status_code == 200 and page.head("/", headers={"host": "evil.example:7500"}).status_code == 421


def test_blanks_are_no_message(answers: AnswerFile) -> None:
    talk = client(Page(None, talking(answers, ScriptedPolicy("a", ["x"]), ScriptedPolicy("b", ["y"])), None, ()))
    assert talk.post("/api/message", json=message(" \n ")).status_code == 422
    assert answers.rows == []


Receive = Callable[[], Awaitable[dict[str, Any]]]


def asgi(guarded: RequestGuard, receive: Receive, patience_s: float) -> int:
    """The status of a request whose body comes from `receive`."""
    told: list[int] = []
    headers = [(b"host", b"127.0.0.1:7500"), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": "/api/answer", "query_string": b"", "headers": headers, "http_version": "1.1"}

    async def send(sent: Any) -> None:
        if sent["type"] == "http.response.start":
            told.append(sent["status"])

    asyncio.run(asyncio.wait_for(guarded(scope, receive, send), patience_s))  # type: ignore[arg-type]
    return told[0]


def test_a_body_in_thirty_thousand_pieces_is_read_in_no_time(answers: AnswerFile) -> None:
    pieces = [json.dumps(answer()).encode(), *[b" "] * 30_000]

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": pieces.pop(0) if len(pieces) % 2 else pieces.pop(), "more_body": bool(pieces)}

    begun = time.process_time()
    assert asgi(page_guard(Page(comparing(answers), None, None, ()).app(), hosts_of("127.0.0.1", 7500), None), receive, 60) == 200
    assert time.process_time() - begun < 1


def test_a_body_that_never_ends_is_not_waited_for(answers: AnswerFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlver.tasks.runtime.guard.PATIENCE_S", 0.1)

    async def receive() -> dict[str, Any]:
        await asyncio.sleep(60)
        return {}

    assert asgi(page_guard(Page(comparing(answers), None, None, ()).app(), hosts_of("127.0.0.1", 7500), None), receive, 1) == 408


@pytest.mark.slow
def test_a_body_that_is_too_long_is_not_read_to_its_end(project: Path) -> None:
    with server(project, *SERVE) as (_, url), socket.create_connection(("127.0.0.1", httpx.URL(url).port or 0), 3) as opened:
        head = f"POST /api/answer HTTP/1.1\r\nHost: 127.0.0.1:{httpx.URL(url).port}\r\nContent-Type: application/json\r\n"
        opened.sendall(f"{head}Content-Length: 10000000000\r\n\r\n".encode() + b"[" * 40_000)
        told = b""
        while part := opened.recv(65_536):  # until it hangs up
            told += part
        assert told.startswith(b"HTTP/1.1 413")


@pytest.mark.slow
def test_clients_that_stall_keep_nobody_out(project: Path) -> None:
    with server(project, *SERVE) as (process, url), ExitStack() as stack:
        rater = stack.enter_context(httpx.Client(base_url=url, trust_env=False, timeout=20))
        port = httpx.URL(url).port or 0
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (256, 256))
        starts = (
            b"",
            b"GET / HTTP/1.1\r\nHost: 127.0.0.1",
            b"POST /api/answer HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Length: 99\r\n" % port,
        )
        for number in range(400):
            stalled = stack.enter_context(socket.create_connection(("127.0.0.1", port), 20))
            stalled.sendall(starts[number % 3])
        assert rater.get("/api/pair?rater=ann").is_success and give(rater, 0).is_success
        process.send_signal(signal.SIGINT)
        assert "Traceback" not in process.communicate(timeout=20)[0]


@pytest.mark.slow
def test_a_client_that_stalls_is_hung_up_on(project: Path) -> None:
    with server(project, *SERVE) as (_, url), ExitStack() as stack:
        head = b"POST /api/answer HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Type: application/json\r\n" % (httpx.URL(url).port or 0)
        starts = (b"", head, head + b"Content-Length: 99\r\n\r\n{", head + b"Transfer-Encoding: chunked\r\n\r\n5\r\n")
        stalled = [stack.enter_context(socket.create_connection(("127.0.0.1", httpx.URL(url).port or 0), 40)) for _ in starts]
        for one, start in zip(stalled, starts, strict=True):
            one.sendall(start)
        for one in stalled:
            with suppress(ConnectionResetError):
                while one.recv(9_999):
                    pass


@pytest.mark.slow
def test_a_client_that_does_not_read_is_hung_up_on(project: Path) -> None:
    with server(project, *SERVE) as (_, url), socket.socket() as deaf:
        port = httpx.URL(url).port or 0
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.connect(("127.0.0.1", port))
        deaf.settimeout(1)
        asked = f"GET /page.js HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode() * 500
        ended = time.monotonic() + 60
        while is_open(deaf, asked):
            assert httpx.get(f"{url}api/pair?rater=ann", trust_env=False).is_success
            assert time.monotonic() < ended, "it waits for ever"


def is_open(client: socket.socket, content: bytes) -> bool:
    try:
        client.sendall(content)
    except TimeoutError:
        return True
    except OSError:
        return False
    return True


# Talks.


def test_the_talk_that_ends_for_another_one_was_quiet_for_longest_and_is_told_why(answers: AnswerFile) -> None:
    a = ScriptedPolicy("a", ["x"])
    talk = client(Page(None, talking(answers, a, ScriptedPolicy("b", ["y"]), most_open=2), None, ()))
    ann = talk.post("/api/message", json=message()).json()
    bo = talk.post("/api/message", json=message(rater="bo", message_id=SECOND)).json()
    talk.post("/api/message", json=message(talk=ann["talk"], message_id="3" * 32))  # the first one goes on
    assert talk.post("/api/message", json=message(rater="cy", message_id="4" * 32)).is_success
    assert talk.post("/api/message", json=message(talk=ann["talk"], message_id="5" * 32)).is_success
    refused = talk.post("/api/message", json=message(rater="bo", talk=bo["talk"], message_id="6" * 32))
    assert refused.status_code == 409 and "to make room for other people" in refused.json()["error"]
    assert "to make room" in talk.get("/api/talk?rater=bo").json()["ended"] and a.closed == 1
    verdict = {"rater": "bo", "talk": bo["talk"], "answer_id": FIRST, "choice": "left", "confidence": 1, "reason": ""}
    assert talk.post("/api/verdict", json=verdict).is_success


def test_no_more_talks_are_open_than_there_is_room_for(answers: AnswerFile) -> None:
    talk = talking(answers, ScriptedPolicy("a", ["x"], wait_s=0.2), ScriptedPolicy("b", ["y"]), most_open=2)

    async def at_once() -> list[Any]:
        speaking = [talk.speak(f"rater {number}", None, f"{number:032x}", "hello") for number in range(5)]
        return await asyncio.gather(*speaking, return_exceptions=True)

    told = asyncio.run(at_once())
    assert [isinstance(one, NoSuchTalk) for one in told] == [False, False, True, True, True]
    assert "in a moment" in str(told[2]) and sum(isinstance(row, TalkBegun) for row in answers.rows) == 2


def test_a_talk_is_still_there_when_the_next_one_could_not_be_begun(answers: AnswerFile, monkeypatch: pytest.MonkeyPatch) -> None:
    talk = talking(answers, ScriptedPolicy("a", ["x"]), ScriptedPolicy("b", ["y"]))
    state = asyncio.run(talk.speak("ann", None, FIRST, "hello"))
    with monkeypatch.context() as full:
        full.setattr(os, "write", lambda file, line: 0)
        with pytest.raises(NotSaved):
            asyncio.run(talk.speak("ann", None, SECOND, "hello from another tab"))
    assert talk.state("ann") == state and state["live"]


def test_replies_that_the_disk_refused_are_kept_and_not_asked_for_again(answers: AnswerFile) -> None:
    class Filling(ScriptedPolicy):
        async def reply(self, user: str) -> Reply:
            limits.append(resource.prlimit(0, resource.RLIMIT_FSIZE, (answers.path.stat().st_size, resource.RLIM_INFINITY)))
            return await super().reply(user)

    limits: list[tuple[int, int]] = []
    a = Filling("a", ["x"])
    talk = client(Page(None, talking(answers, a, ScriptedPolicy("b", ["y"])), None, ()))
    try:
        assert talk.post("/api/message", json=message()).status_code == 507
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits[0])
    state = talk.post("/api/message", json=message()).json()
    assert {state["messages"][0][side]["reply"] for side in ("left", "right")} == {"x", "y"}
    assert a.heard == ["I am sad."] and sum(isinstance(row, Replied) for row in read_answers(answers.path).rows) == 1


def test_other_words_under_the_same_number_are_not_dropped_in_silence(answers: AnswerFile) -> None:
    talk = client(Page(None, talking(answers, ScriptedPolicy("a", ["x"]), ScriptedPolicy("b", ["y"])), None, ()))
    assert talk.post("/api/message", json=message()).is_success
    assert talk.post("/api/message", json=message("And then?")).status_code == 409


def test_a_talk_does_not_grow_without_end(answers: AnswerFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlver.tasks.studies.blind.talking.MOST_MESSAGES", 2, raising=False)
    talk = client(Page(None, talking(answers, ScriptedPolicy("a", ["x"]), ScriptedPolicy("b", ["y"])), None, ()))
    state = talk.post("/api/message", json=message()).json()
    told = [talk.post("/api/message", json=message(talk=state["talk"], message_id=f"{number:032x}")).status_code for number in (1, 2)]
    assert told == [200, 409]
    assert talk.post("/api/message", json=message(talk=state["talk"])).is_success, "a message that is there may be sent again"
