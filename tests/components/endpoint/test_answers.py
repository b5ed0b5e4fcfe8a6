"""What was answered is never asked again: across runs, kills and callers; and a replay gives it back without a server."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from scripted_server import Asked, Reply, Server, answer_to, ask, error, good, key, parameters, serving

from rlver.components.domain.files import BadFile
from rlver.components.endpoint.answers import digest_of
from rlver.components.endpoint.chat import ChatAnswer, ChatRequest, EndpointUnavailable, Message, NotRecorded
from rlver.components.endpoint.ledger import open_database
from rlver.components.endpoint.opening import open_endpoint

NOWHERE = "http://127.0.0.1:9/v1"


def plain(number: int, asked: Asked) -> Reply:
    return good(asked, wait_s=0.01)


def replayed(path: Path, *requests: ChatRequest) -> list[ChatAnswer]:
    async def run() -> list[ChatAnswer]:
        async with open_endpoint(parameters(NOWHERE), key, path, replay=True) as endpoint:
            return [await endpoint.chat(request) for request in requests]

    return asyncio.run(run())


def recorded(path: Path, *requests: ChatRequest) -> tuple[list[ChatAnswer], Server]:
    async def run() -> tuple[list[ChatAnswer], Server]:
        async with serving(plain) as server, open_endpoint(parameters(server.url), key, path, replay=False) as endpoint:
            return await asyncio.gather(*(endpoint.chat(request) for request in requests)), server

    return asyncio.run(run())


def test_a_second_run_asks_nothing_and_gets_the_same(tmp_path: Path) -> None:
    path = tmp_path / "new folder" / "answers.db"
    requests = [ask(str(number)) for number in range(20)]
    first, server = recorded(path, *requests)
    again, idle = recorded(path, *requests)
    assert len(server.asked) == 20 and not idle.asked
    assert again == [replace(answer, cached=True) for answer in first]


def test_a_replay_is_exact_needs_no_server_and_changes_no_byte(tmp_path: Path) -> None:
    path = tmp_path / "an odd?name#.db"
    requests = [ask(f"é你🙂\ud83d {number}", schema={"b": 1, "a": [2.5]}) for number in range(5)]
    first, _ = recorded(path, *requests)
    before = path.read_bytes()
    path.chmod(0o444)
    assert replayed(path, *requests) == replayed(path, *requests) == [replace(answer, cached=True) for answer in first]
    assert path.read_bytes() == before and os.listdir(tmp_path) == [path.name]


def test_a_replay_says_what_it_does_not_hold(tmp_path: Path) -> None:
    path = tmp_path / "answers.db"
    recorded(path, ask("a"))
    with pytest.raises(NotRecorded, match=r"^replay: .*answers\.db holds no answer of 'model-a' to this request .* run without replay"):
        replayed(path, ask("b"))


@pytest.mark.parametrize(
    "change",
    [
        {"model": "model-b"},
        {"messages": (Message("user", "You are kind."), Message("user", "a"))},
        {"messages": (Message("system", "You are kind.a"), Message("user", ""))},
        {"temperature": 0.6},
        {"top_p": 0.9},
        {"max_tokens": 101},
        {"seed": 8},
        {"seed": None},
        {"schema": {}},
        {"attempt": 1},
    ],
    ids=str,
)
def test_any_difference_is_another_question(change: dict[str, Any]) -> None:
    assert digest_of(replace(ask("a"), **change)) != digest_of(ask("a"))


def test_equal_requests_have_one_digest_which_stays() -> None:
    """The digest is part of every file of answers: a new value makes all recordings worthless."""
    assert digest_of(ask("a", temperature=1, schema={"a": 1, "b": 2})) == digest_of(ask("a", temperature=1.0, schema={"b": 2, "a": 1}))
    assert digest_of(ask("a")).startswith("b24ac7a3481bb86c")


def test_identical_questions_at_once_are_one_call(tmp_path: Path) -> None:
    answers, server = recorded(tmp_path / "answers.db", *[ask("a")] * 50, ask("a", attempt=1))
    assert server.answered == {"a": 2}
    assert {answer.text for answer in answers} == {answer_to("a")} and sum(not answer.cached for answer in answers) == 2


def test_a_caller_that_goes_away_takes_nothing_from_the_others_and_loses_no_answer(tmp_path: Path) -> None:
    async def run() -> None:
        async with serving(lambda number, asked: good(asked, wait_s=0.1)) as server:
            async with open_endpoint(parameters(server.url), key, tmp_path / "answers.db", replay=False) as endpoint:
                impatient, patient, alone = (asyncio.create_task(endpoint.chat(ask(text))) for text in ("a", "a", "b"))
                await asyncio.sleep(0.05)
                impatient.cancel()
                alone.cancel()
                assert (await patient).text == answer_to("a")
                await asyncio.sleep(0.1)
                assert (await endpoint.chat(ask("b"))).cached
            assert server.answered == {"a": 1, "b": 1}

    asyncio.run(run())


def test_a_failed_question_is_asked_again(tmp_path: Path) -> None:
    async def run() -> None:
        def script(number: int, asked: Asked) -> Reply:
            return error(500, "no") if number == 0 else good(asked)

        async with serving(script) as server, open_endpoint(parameters(server.url, attempts=1), key, tmp_path / "a.db", False) as endpoint:
            failed = await asyncio.gather(endpoint.chat(ask("a")), endpoint.chat(ask("a")), return_exceptions=True)
            assert [type(one) for one in failed] == [EndpointUnavailable] * 2
            assert (await endpoint.chat(ask("a"))).text == answer_to("a") and len(server.asked) == 2

    asyncio.run(run())


@pytest.mark.long
def test_after_a_kill_no_answered_question_is_asked_again(tmp_path: Path) -> None:
    """The process dies by SIGKILL when about half of 120 questions are answered; the next run asks only for the rest."""
    path, questions = tmp_path / "answers.db", 120
    command = (sys.executable, str(Path(__file__).with_name("client_process.py")))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(str(Path(__file__).parents[up]) for up in (2, 3))}

    async def run() -> None:
        async with serving(plain) as server:
            arguments = (server.url, str(path), str(questions))
            first = await asyncio.create_subprocess_exec(*command, *arguments, stdout=asyncio.subprocess.PIPE, env=environment)
            assert first.stdout
            said = [await first.stdout.readline() for _ in range(questions // 2)]
            first.kill()
            said += (await first.stdout.read()).splitlines(keepends=True)
            assert await first.wait() == -9
            seen = {line.decode().split("\t")[0] for line in said if line.endswith(b"\n")}
            with sqlite3.connect(path) as connection:
                rows = connection.execute("SELECT request FROM answers").fetchall()
            stored = {json.loads(request)["messages"][-1][1] for (request,) in rows}
            assert len(seen) >= questions // 2 and len(stored) < questions and seen <= stored
            asked_before = Counter(asked.content for asked in server.asked)

            second = await asyncio.create_subprocess_exec(*command, *arguments, stdout=asyncio.subprocess.PIPE, env=environment)
            answers, _ = await second.communicate()
            assert second.returncode == 0
            lines = dict(line.split("\t") for line in answers.decode().splitlines())
            assert lines == {f"question {number}": answer_to(f"question {number}") for number in range(questions)}
            asked = Counter(one.content for one in server.asked)
            assert all(asked[question] == 1 for question in stored)
            assert all(asked[question] == asked_before[question] + 1 for question in lines.keys() - stored)
            assert len(server.asked) <= questions + 8, "what was in flight at the kill, at most"

    asyncio.run(run())


def test_two_processes_may_share_the_file(tmp_path: Path) -> None:
    """Two connections to one file, opened and used at once, as two processes have."""

    async def run() -> None:
        async with serving(plain) as server:
            settings = parameters(server.url)
            async with (
                open_endpoint(settings, key, tmp_path / "a.db", False) as one,
                open_endpoint(settings, key, tmp_path / "a.db", False) as two,
            ):
                answers = await asyncio.gather(*(endpoint.chat(ask(str(n))) for n in range(30) for endpoint in (one, two)))
                assert [answer.text for answer in answers] == [answer_to(str(n)) for n in range(30) for _ in (one, two)]
                assert (await two.chat(ask("x"))).cached is False and (await one.chat(ask("x"))).cached is True

    asyncio.run(run())


def test_of_two_processes_that_ask_the_same_at_once_both_get_the_answer_that_a_replay_gives(tmp_path: Path) -> None:
    async def run() -> list[ChatAnswer]:
        def script(number: int, asked: Asked) -> Reply:
            return good(asked, text=f"answer {number}", tokens_out=10 + number, wait_s=0.1 + 0.1 * number)

        async with serving(script) as server:
            settings = parameters(server.url)
            async with (
                open_endpoint(settings, key, tmp_path / "a.db", False) as one,
                open_endpoint(settings, key, tmp_path / "a.db", False) as two,
            ):
                answers = await asyncio.gather(one.chat(ask("a")), two.chat(ask("a")))
            assert len(server.asked) == 2
            return answers

    answers = asyncio.run(run())
    assert sorted(answer.cached for answer in answers) == [False, True]
    assert {replace(answer, cached=True) for answer in answers} == set(replayed(tmp_path / "a.db", ask("a")))


def test_several_may_make_the_file_at_the_same_moment(tmp_path: Path) -> None:
    """Eight threads, each with a connection of its own; without care about one opening in ten fails."""

    def opened(path: Path, together: threading.Barrier) -> str:
        together.wait()
        database = open_database(path)
        try:
            with database.reading() as connection:
                return str(connection.execute("PRAGMA journal_mode").fetchone()[0])
        finally:
            database.close()

    with ThreadPoolExecutor(8) as threads:
        for number in range(20):
            together = threading.Barrier(8)
            assert list(threads.map(opened, [tmp_path / f"{number}.db"] * 8, [together] * 8)) == ["wal"] * 8


@pytest.mark.parametrize(
    ("content", "replay", "message"),
    [
        (b"not a database at all, but a text of some length" * 20, False, "file is not a database"),
        (b"not a database at all, but a text of some length" * 20, True, "file is not a database"),
        (None, True, "no such file, so there is nothing to replay"),
        (b"", True, "empty, so there is nothing to replay"),
    ],
)
def test_a_file_that_cannot_be_used_is_said_in_one_line(tmp_path: Path, content: bytes | None, replay: bool, message: str) -> None:
    path = tmp_path / "answers.db"
    if content is not None:
        path.write_bytes(content)

    async def run() -> None:
        async with open_endpoint(parameters(NOWHERE), key, path, replay):
            pass

    with pytest.raises(BadFile, match=message) as caught:
        asyncio.run(run())
    assert "answers.db" in str(caught.value) and "\n" not in str(caught.value)
    assert content is None or path.read_bytes() == content


def test_a_folder_in_the_place_of_the_file_is_said_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match=rf"^{tmp_path}: unable to open database file; is it a folder, or may you not read and write it\?$"):
        open_database(tmp_path)


@pytest.mark.parametrize("replay", [False, True])
def test_the_file_of_another_program_is_left_alone(tmp_path: Path, replay: bool) -> None:
    path = tmp_path / "mlflow.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE runs (name TEXT)")
    before = path.read_bytes()

    async def run() -> None:
        async with open_endpoint(parameters(NOWHERE), key, path, replay):
            pass

    with pytest.raises(BadFile, match="not a file of answers of version 2"):
        asyncio.run(run())
    assert path.read_bytes() == before


def test_an_answer_that_cannot_be_stored_is_not_used(tmp_path: Path) -> None:
    async def run() -> None:
        async with serving(plain) as server, open_endpoint(parameters(server.url), key, tmp_path / "a.db", False) as endpoint:
            with sqlite3.connect(tmp_path / "a.db") as connection:
                connection.execute("CREATE TRIGGER full BEFORE INSERT ON answers BEGIN SELECT RAISE(ABORT, 'disk is full'); END")
            await endpoint.chat(ask("a"))

    with pytest.raises(BadFile, match=r"a\.db: disk is full; is the disk full"):
        asyncio.run(run())
