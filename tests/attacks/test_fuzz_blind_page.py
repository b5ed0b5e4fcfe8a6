"""Requests to the page of `rlver blind`, mutated from those of the page: each is answered or hung up on, and what was saved can be read.

They go through all that stands between a socket and the file: uvicorn's HTTP, the guard, the page. Most of them without a socket, for speed.
"""

from __future__ import annotations

import asyncio
import logging
import re
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from blind_page import ScriptedPolicy, answer, message, talking
from blind_server import server
from blind_study import both, comparing
from fuzzing import MOST_GROWTH_MIB, fuzz
from mutation import as_json, mutants
from uvicorn.server import ServerState

from rlver.components.domain.files import write_jsonl
from rlver.tasks.runtime.guard import hosts_of
from rlver.tasks.studies.blind.answer_file import AnswerFile
from rlver.tasks.studies.blind.answers import Choice, Replied, TalkVerdict, read_answers
from rlver.tasks.studies.blind.guard import page_guard
from rlver.tasks.studies.blind.page import Page
from rlver.tasks.studies.blind.report import judged
from rlver.tasks.studies.blind.serving import config_of

KEY, HOST = "the-key", "192.168.1.5:7500"
TALK, NEW = "7" * 32, "1" * 32  # stand for the talk that Ann began last, and for a number that no answer or message had
HEADERS = {
    "Host": HOST,
    "Cookie": f"_xsrf=1; rlver_blind={KEY}",
    "Accept": "*/*",
    "Sec-Fetch-Site": "same-origin",
    "Sec-Fetch-Mode": "cors",
}
JUDGEMENT = {"rater": "Ann", "answer_id": NEW, "choice": "tie", "confidence": 1, "reason": "Because."}
RAWS = (
    *(f"/api/pair?rater=ann&place={place}" for place in ("9" * 5_000, "-1", "%D9%A3", "1e3", "0x1", "NaN", "+1", "%00", "0" * 60_000)),
    *(
        f"/api/{asked}"
        for asked in ("pair?rater=%ED%A0%80", "pair?rater=%FF&place=0", "talk?rater=", "pair?" + "&" * 9_000, "../page.py", "%2e%2e/")
    ),
    *(
        "//evil.example/",
        "http://evil.example/",
        "*",
        "/page.css/",
        f"/?key={KEY}&key=%00",
        "/?key=" + "%" * 999,
        "TRACE",
        "CONNECT",
        "PRI",
        "é",
    ),
    *("chunked", "gzip, chunked", "100-continue", "websocket", "Upgrade", "close", "-5", "Transfer-Encoding: chunked\r\nContent-Length: 3"),
    *(
        f"{';' * 900} rlver_blind={KEY}",
        "=;" * 900,
        f'a="{KEY}; rlver_blind=',
        "null",
        "http://127.0.0.1:7500",
        "evil.example\r\nHost: " + HOST,
    ),
)
STATUS = re.compile(rb"^HTTP/1\.1 (\d{3}) ", re.MULTILINE)


def request(method: str, target: str, body: Any = None, **headers: str) -> dict[str, Any]:
    return {"method": method, "target": target, "headers": {**HEADERS, **headers}, "body": body}


def said(target: str, body: Any, **headers: str) -> dict[str, Any]:
    return request("POST", target, body, **{"Content-Type": "application/json", "Origin": f"http://{HOST}", **headers})


DOCUMENTS: list[Any] = [
    request("GET", f"/?key={KEY}", **{"Sec-Fetch-Mode": "navigate"}),
    request("GET", "/page.js"),
    request("HEAD", "/page.css"),
    request("OPTIONS", "/api/answer", **{"Origin": f"http://{HOST}", "Access-Control-Request-Method": "POST"}),
    request("GET", "/api/start?rater=Ann"),
    request("GET", "/api/pair?rater=Ann"),
    request("GET", "/api/pair?rater=%C3%84nn&place=3"),
    request("GET", "/api/talk?rater=Ann"),
    said("/api/answer", answer(2)),
    said("/api/answer", answer(1, rater="Bo", reason="心里很难受 😀"), **{"Transfer-Encoding": "chunked"}),
    said("/api/message", message()),
    said("/api/message", message("And then?", talk=TALK)),
    said("/api/verdict", {**JUDGEMENT, "talk": TALK}),
    said("/api/leave", {"rater": "Ann"}),
]


def as_request(value: Any) -> bytes:
    """The bytes of a request, or of several, whatever has become of its parts."""
    if isinstance(value, list):
        return b"".join(map(as_request, value))
    if not isinstance(value, dict):
        return _bytes(value)
    headers = value.get("headers")
    lines = [f"{key}: {_text(one)}" for key, one in headers.items()] if isinstance(headers, dict) else [_text(headers)]
    body = as_json(value["body"]) if value.get("body") is not None else b""
    if isinstance(headers, (dict, list, str)) and "Transfer-Encoding" in headers:
        half = len(body) // 2
        body = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (body[:half], body[half:], b"") if part or part is not body)
    elif body:
        lines.append(f"Content-Length: {len(body)}")
    first = f"{_text(value.get('method', 'GET'))} {_text(value.get('target', '/'))} HTTP/1.1"
    return _bytes("\r\n".join([first, *lines, "", ""])) + body


def _text(value: Any) -> str:
    return value if isinstance(value, str) else as_json(value).decode("utf-8", "surrogateescape")


def _bytes(value: Any) -> bytes:
    return _text(value).encode("utf-8", "surrogatepass") if not isinstance(value, str) else value.encode("utf-8", "surrogatepass")


class Wire(asyncio.Transport):
    """What a socket does for a server, without one."""

    def __init__(self) -> None:
        super().__init__()
        self.written, self.closed = bytearray(), False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    abort = close

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


class Served(logging.Handler):
    """The page as it is served; `ask` gives it the bytes of one connection."""

    def __init__(self, file: AnswerFile) -> None:
        super().__init__(logging.ERROR)
        self.file, self.loop, self.state, self.failed, self.asked = file, asyncio.new_event_loop(), ServerState(), list[str](), 0
        nasty: list[str | Exception] = ["x", "\ud83d", RuntimeError("\udc00\n"), "<script>\x00\u202e", "y" * 20_000]
        self.talking = talking(file, ScriptedPolicy("a", nasty), ScriptedPolicy("b", nasty[:-1]))
        page = Page(comparing(file), self.talking, None, ["a card"])
        self.config: uvicorn.Config = config_of(page_guard(page.app(), hosts_of("192.168.1.5", 7500), KEY), "192.168.1.5", 7500)
        self.config.load()
        logging.getLogger("uvicorn.error").addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self.failed.append(str(record.exc_info[1]) if record.exc_info else record.getMessage())

    def ask(self, content: bytes, at: int | None = None) -> None:
        """In two pieces, the first of which has `at` bytes. Raises AssertionError for what must not happen, and ValueError for a request that is refused."""
        self.asked += 1
        for meant, said in ((TALK, self.talking.state("ann")["talk"] or TALK), (NEW, f"{self.asked:032x}")):
            content = content.replace(meant.encode(), said.encode())
        written = self.loop.run_until_complete(self._answered(content, at))
        statuses = [int(status) for status in STATUS.findall(written)]
        assert not self.failed, self.failed.pop()
        assert all(status < 500 for status in statuses), f"{max(statuses)}"
        assert written.count(b"content-security-policy") >= sum(status != 400 for status in statuses), "an answer without the headers"
        if not statuses or max(statuses) >= 400:
            raise ValueError("refused")

    async def _answered(self, content: bytes, at: int | None) -> bytes:
        wire = Wire()
        made = self.config.http_protocol_class(config=self.config, server_state=self.state, app_state={}, _loop=self.loop)  # type: ignore[call-arg]
        made.connection_made(wire)
        at = len(content) // 2 if at is None else at
        for part in (content[:at], content[at:]):
            if part and not wire.closed:
                made.data_received(part)
            await self._settled()
        made.connection_lost(None)  # type: ignore[attr-defined]
        await self._settled()
        assert not self.state.tasks, "it goes on for a client that has left"
        return bytes(wire.written)

    async def _settled(self) -> None:
        for _ in range(100):
            if not self.state.tasks:
                return
            await asyncio.sleep(0)

    def end(self) -> None:
        logging.getLogger("uvicorn.error").removeHandler(self)
        self.loop.close()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with AnswerFile(tmp_path / "answers.jsonl", lambda line: None) as file:
        opened = Served(file)
        yield opened
        opened.end()


def test_every_request_of_the_page_is_answered_as_it_is(served: Served) -> None:
    for document in DOCUMENTS:
        if document["method"] != "OPTIONS":
            served.ask(as_request(document))
    assert {type(row) for row in served.file.rows} >= {Choice, Replied, TalkVerdict}


CHUNKED = as_request(DOCUMENTS[9])


@pytest.mark.parametrize(
    "content",
    [
        CHUNKED.replace(b"\r\n\r\n", b"\r\n\r\nno number\r\n", 1),
        CHUNKED.removesuffix(b"0\r\n\r\n") + b"-1\r\n",
        CHUNKED.replace(b"/api/answer", b"/nowhere") + b"\x00",
        CHUNKED.replace(HOST.encode(), b"evil.example").replace(b"\r\n0\r\n", b"\r\nzz\r\n"),
        as_request(DOCUMENTS[8]) + b"\x00\r\n\r\n",
        as_request(DOCUMENTS[0]).replace(b"\r\n\r\n", b"\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n"),
    ],
)
def test_what_breaks_http_on_the_way_is_refused_without_a_traceback(served: Served, content: bytes) -> None:
    for cut in range(0, len(content), 7):
        with suppress(ValueError):
            served.ask(content, at=cut)


@pytest.mark.parametrize("times", [300, pytest.param(10_000, marks=pytest.mark.slow)])
def test_no_request_breaks_the_page(served: Served, times: int) -> None:
    pipelined = [DOCUMENTS[5:9], [DOCUMENTS[10]] * 3]
    fuzz(mutants([*DOCUMENTS, *DOCUMENTS, *pipelined, *map(as_request, DOCUMENTS), *[CHUNKED] * 4], as_request, RAWS), served.ask, times)
    served.ask(as_request(DOCUMENTS[5]))
    rows = read_answers(served.file.path).rows
    assert rows == served.file.rows and {type(row) for row in rows} >= {Choice, Replied}
    assert judged(rows).choices


@pytest.mark.slow
def test_no_request_breaks_the_process(tmp_path: Path) -> None:
    for name, dialogues in zip(("one", "other"), both(8), strict=True):
        write_jsonl(tmp_path / f"{name}.jsonl", [dialogue.model_dump(mode="json") for dialogue in dialogues])
    (tmp_path / "params.yaml").write_bytes((Path(__file__).parents[2] / "params.yaml").read_bytes())
    with server(tmp_path, "one.jsonl", "other.jsonl", "--answers", "a.jsonl", "--port", "0") as (process, url):
        at = httpx.URL(url)

        def ask(content: bytes) -> None:
            with socket.create_connection((at.host, at.port or 0), 5) as opened:
                opened.settimeout(5)
                told = b""
                try:
                    opened.sendall(content.replace(HOST.encode(), at.netloc))
                    opened.shutdown(socket.SHUT_WR)
                    while part := opened.recv(65_536):
                        told += part
                except (ConnectionResetError, BrokenPipeError):
                    pass  # it has hung up
            statuses = [int(status) for status in STATUS.findall(told)]
            assert all(status < 500 for status in statuses), f"{max(statuses)}"
            if not statuses or max(statuses) >= 400:
                raise ValueError("refused")

        before = highest_mib(process.pid)
        fuzz(mutants(DOCUMENTS, as_request, RAWS), ask, 1_000)
        assert highest_mib(process.pid) - before < MOST_GROWTH_MIB
        assert httpx.get(f"{url}api/pair?rater=ann", trust_env=False).is_success
        process.terminate()
        assert "Traceback" not in process.communicate(timeout=20)[0]


def highest_mib(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) // 1024
