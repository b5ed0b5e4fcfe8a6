"""What a hostile server behind a chat endpoint answers moves no budget and ends no run: counts, JSON, halves of characters."""

from __future__ import annotations

import asyncio
import io
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hostile_endpoint import MODEL, asked_once, chat_process, chat_project, first, only_model
from scripted_server import Reply, answer_to, ask, key, parameters, serving, serving_beside

from rlver.components.endpoint.answers import digest_of
from rlver.components.endpoint.chat import ChatAnswer, EndpointError, EndpointRefused
from rlver.components.endpoint.opening import check_endpoint, open_endpoint
from rlver.components.rollout.transcripts import load_transcripts
from rlver.flows.cli import main
from rlver.tasks.runtime.person import Terminal
from rlver.tasks.studies.authoring.answers import Unusable, read_person
from rlver.tasks.studies.authoring.language import LANGUAGES

HALF, REPLACED = "\ud83d", "\ufffd"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, repository_root: Path) -> Path:
    return chat_project(tmp_path, monkeypatch, repository_root)


# What a server says it has counted.

WHOLE = '{"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}], "usage": %s}'


@pytest.mark.parametrize(
    "usage",
    [
        '{"prompt_tokens": -1000000, "completion_tokens": 5}',
        '{"prompt_tokens": 5, "completion_tokens": -1}',
        '{"prompt_tokens": 1000000000000000000000000000000, "completion_tokens": 5}',
        '{"prompt_tokens": 5, "completion_tokens": 2147483648}',
        '{"prompt_tokens": true, "completion_tokens": 5}',
        '{"prompt_tokens": false, "completion_tokens": 5}',
        '{"prompt_tokens": 5, "completion_tokens": ""}',
        '{"prompt_tokens": 5, "completion_tokens": 0.0}',
        '{"prompt_tokens": 5, "completion_tokens": 5, "more": NaN}',
        '{"prompt_tokens": 5, "completion_tokens": 5, "more": -Infinity}',
        "[]",
        "false",
    ],
)
def test_a_number_that_is_no_count_of_tokens_is_a_malformed_answer_and_is_asked_again(tmp_path: Path, usage: str) -> None:
    answer, calls = asked_once(tmp_path, first((WHOLE % usage).encode()), budget=1.0)
    assert answer.text == answer_to("a") and (calls["calls"], calls["failed/malformed"]) == (2, 1)


@pytest.mark.parametrize("tokens", [-1_000_000, 10**30])
def test_no_count_of_a_server_lets_the_budget_go_down(tmp_path: Path, tokens: int) -> None:
    """Each call may cost 0.0002 and more of 0.001, and no answer can be used: a few calls, and the budget ends them."""
    spent: list[float] = []
    usage = {"prompt_tokens": tokens, "completion_tokens": tokens}

    async def run() -> None:
        body = json.dumps({"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}], "usage": usage}).encode()
        async with serving(lambda number, asked: Reply(body=body)) as server:
            settings = parameters(server.url, budget=0.001, attempts=2)
            async with open_endpoint(settings, key, tmp_path / "a.db", False) as endpoint:
                for number in range(9):
                    with pytest.raises(EndpointError):
                        await endpoint.chat(ask(str(number)))
                    spent.append(endpoint.ledger.summary()["money_at_most"])
            assert 1 <= len(server.asked) <= 4

    asyncio.run(run())
    assert spent == sorted(spent) and 0 < spent[0] <= spent[-1] <= 0.001


NESTED = "[" * 800 + "]" * 800


@pytest.mark.parametrize(
    "body",
    [
        (WHOLE % "{}").replace('"hi"', NESTED),
        WHOLE % f'{{"prompt_tokens": {NESTED}}}',
    ],
    ids=["nested text", "nested count"],
)
def test_json_that_breaks_readers_is_a_malformed_answer(tmp_path: Path, body: str) -> None:
    answer, calls = asked_once(tmp_path, first(body.encode()))
    assert answer.text == answer_to("a") and calls["failed/malformed"] == 1


def test_nested_lists_in_a_field_that_nobody_reads_end_no_run(tmp_path: Path) -> None:
    body = WHOLE % f'{{}}, "x": {NESTED}'
    answer, _ = asked_once(tmp_path, first(body.encode()))
    assert answer.text in {"hi", answer_to("a")}


@pytest.mark.parametrize("name", ['"a\\ud800b"', "[" * 900 + "]" * 900, '"\\u001b]0;owned\\u0007"', '"%s"' % ("a" * 100_000)])
def test_names_of_models_are_texts_that_can_be_shown(name: str) -> None:
    async def run() -> str:
        async with serving(lambda number, asked: Reply(body=f'{{"data": [{{"id": {name}}}, {{"id": "b"}}]}}'.encode())) as server:
            with pytest.raises(EndpointRefused, match="unknown model 'model-x'") as caught:
                await check_endpoint(parameters(server.url), key, ["model-x"])
            return str(caught.value)

    said = asyncio.run(run())
    assert said.isprintable() and len(said) < 500


def test_an_answer_of_a_writer_with_deep_lists_is_malformed_not_a_crash() -> None:
    with pytest.raises(Unusable, match="nested too deep"):
        read_person('{"habits": %s}' % ("[" * 900 + "]" * 900), "Ann", LANGUAGES["en"])


# Halves of characters.


def test_half_a_character_in_a_reply_ends_no_run_and_no_rerun(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving_beside(lambda number, asked: only_model(number, asked, f"I hear {HALF} you.")) as server:
        monkeypatch.setenv("RLVER_POLICY_URL", server.url)
        for out in ("a.jsonl", "b.jsonl"):
            assert main(["converse", "--policy", f"openai:{MODEL}", "-o", out, "--limit", "2"]) == 0
    replies = {turn.assistant for dialogue in load_transcripts(project / "a.jsonl") for turn in dialogue.turns}
    assert replies == {f"I hear {REPLACED} you."}
    assert (project / "a.jsonl").read_bytes() == (project / "b.jsonl").read_bytes(), "and the stored answers say the same"


def test_half_a_character_is_replaced_wherever_a_server_can_put_it(tmp_path: Path) -> None:
    message = {"content": f"a{HALF}b", "reasoning_content": f"c{HALF}"}
    body = json.dumps({"choices": [{"message": message, "finish_reason": f"stop{HALF}"}]}).encode()
    answer, _ = asked_once(tmp_path, first(body))
    assert (answer.text, answer.reasoning, answer.finish_reason) == (f"a{REPLACED}b", f"c{REPLACED}", f"stop{REPLACED}")


def store_with(path: Path, answer: str) -> None:
    """The file of answers as an older version left it, with this answer to the question `a`."""

    async def make() -> None:
        script = first()
        async with serving(script) as server, open_endpoint(parameters(server.url), key, path, False) as endpoint:
            await endpoint.chat(ask("a"))

    asyncio.run(make())
    with closing(sqlite3.connect(path)) as file, file:
        assert file.execute("UPDATE answers SET answer = ? WHERE digest = ?", (answer, digest_of(ask("a")))).rowcount == 1


def replayed(path: Path) -> ChatAnswer:
    async def run() -> ChatAnswer:
        async with open_endpoint(parameters("http://127.0.0.1:9/v1"), key, path, replay=True) as endpoint:
            return await endpoint.chat(ask("a"))

    return asyncio.run(run())


def test_half_a_character_in_an_old_file_of_answers_is_replaced_when_it_is_read(tmp_path: Path) -> None:
    kept = {"text": f"a{HALF}", "reasoning": HALF, "finish_reason": "stop", "tokens_in": 1, "tokens_out": 1, "seconds": 0.1}
    store_with(tmp_path / "a.db", json.dumps(kept))
    answer = replayed(tmp_path / "a.db")
    assert (answer.text, answer.reasoning) == (f"a{REPLACED}", REPLACED)


@pytest.mark.parametrize("damaged", ["{", "[]", "[" * 100_000, '{"text": 5}', '{"text": "a", "more": 1}', "1" * 5000])
def test_a_damaged_answer_in_the_file_is_named_in_one_line(tmp_path: Path, damaged: str) -> None:
    store_with(tmp_path / "a.db", damaged)
    with pytest.raises(ValueError, match=r"a\.db: the answer [0-9a-f]{12} is damaged"):
        replayed(tmp_path / "a.db")


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["utf-8:strict", "utf-8:surrogateescape"])
def test_chat_goes_on_after_half_a_character_of_the_model_and_bytes_of_the_person_that_are_no_text(project: Path, encoding: str) -> None:
    with serving_beside(lambda number, asked: only_model(number, asked, f"I hear {HALF} you.")) as server:
        done = chat_process(server.url, b"caf\xe9\nbye then\n", encoding, "--policy", f"openai:{MODEL}")
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode().count(f"it > I hear {REPLACED} you.") == 2
    assert [asked.content for asked in server.asked if asked.body] == [f"caf{REPLACED}", "bye then"]


def test_a_line_of_the_terminal_holds_whole_characters_only() -> None:
    target = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="strict")
    terminal = Terminal(io.StringIO("caf\udce9\n"), target)
    assert terminal.ask("you") == f"caf{REPLACED}"
    terminal.show(HALF)
