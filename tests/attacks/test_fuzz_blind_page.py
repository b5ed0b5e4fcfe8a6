"""Requests to the page of `rlver blind`, mutated from those of the page: each is answered or hung up on, and what was saved can be read.

They go through all that stands between a socket and the file: uvicorn's HTTP, the guard, the page. Most of them without a socket, for speed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from blind_page import ScriptedPolicy, answer, message, talking
from blind_server import server
from blind_study import both, comparing
from fuzzing import MOST_GROWTH_MIB, fuzz
from mutation import mutants
from wire import ServedInProcess, as_request, highest_mib, over_a_socket, refuse_refused, statuses_of

from rlver.components.domain.files import write_jsonl
from rlver.tasks.runtime.guard import hosts_of
from rlver.tasks.runtime.web import config_of
from rlver.tasks.studies.blind.answer_file import AnswerFile
from rlver.tasks.studies.blind.answers import Choice, Replied, TalkVerdict, read_answers
from rlver.tasks.studies.blind.page import Page, page_guard
from rlver.tasks.studies.blind.report import judged

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


class Served(ServedInProcess):
    """The page as it is served."""

    def __init__(self, file: AnswerFile) -> None:
        nasty: list[str | Exception] = ["x", "\ud83d", RuntimeError("\udc00\n"), "<script>\x00\u202e", "y" * 20_000]
        self.file, self.asked = file, 0
        self.talking = talking(file, ScriptedPolicy("a", nasty), ScriptedPolicy("b", nasty[:-1]))
        page = Page(comparing(file), self.talking, None, ["a card"])
        super().__init__(config_of(page_guard(page.app(), hosts_of("192.168.1.5", 7500), KEY), "192.168.1.5", 7500))

    def read(self, content: bytes, at: int | None = None) -> None:
        """Raises AssertionError for what must not happen, and ValueError for a request that is refused."""
        self.asked += 1
        for meant, said in ((TALK, self.talking.state("ann")["talk"] or TALK), (NEW, f"{self.asked:032x}")):
            content = content.replace(meant.encode(), said.encode())
        written = self.ask(content, at)
        assert written.count(b"content-security-policy") >= sum(status != 400 for status in statuses_of(written)), (
            "an answer without the headers"
        )
        refuse_refused(written)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with AnswerFile(tmp_path / "answers.jsonl", lambda line: None) as file:
        opened = Served(file)
        yield opened
        opened.end()


def test_every_request_of_the_page_is_answered_as_it_is(served: Served) -> None:
    for document in DOCUMENTS:
        if document["method"] != "OPTIONS":
            served.read(as_request(document))
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
            served.read(content, at=cut)


@pytest.mark.parametrize("times", [300, pytest.param(10_000, marks=pytest.mark.slow)])
def test_no_request_breaks_the_page(served: Served, times: int) -> None:
    pipelined = [DOCUMENTS[5:9], [DOCUMENTS[10]] * 3]
    fuzz(mutants([*DOCUMENTS, *DOCUMENTS, *pipelined, *map(as_request, DOCUMENTS), *[CHUNKED] * 4], as_request, RAWS), served.read, times)
    served.read(as_request(DOCUMENTS[5]))
    rows = read_answers(served.file.path).rows
    assert rows == served.file.rows and {type(row) for row in rows} >= {Choice, Replied}
    assert judged(rows).choices


@pytest.mark.slow
def test_no_request_breaks_the_process(tmp_path: Path) -> None:
    for name, dialogues in zip(("one", "other"), both(8), strict=True):
        write_jsonl(tmp_path / f"{name}.jsonl", [dialogue.model_dump(mode="json") for dialogue in dialogues])
    (tmp_path / "params.yaml").write_bytes((Path(__file__).parents[2] / "params.yaml").read_bytes())
    with server(tmp_path, "one.jsonl", "other.jsonl", "--answers", "a.jsonl", "--port", "0") as (process, url):
        before = highest_mib(process.pid)
        fuzz(mutants(DOCUMENTS, as_request, RAWS), over_a_socket(url, HOST), 1_000)
        assert highest_mib(process.pid) - before < MOST_GROWTH_MIB
        assert httpx.get(f"{url}api/pair?rater=ann", trust_env=False).is_success
        process.terminate()
        assert "Traceback" not in process.communicate(timeout=20)[0]
