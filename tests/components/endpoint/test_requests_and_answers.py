"""What is asked of a chat endpoint and in which form, and what counts as an answer."""

from __future__ import annotations

from pathlib import Path

import pytest
from one_chat import chat, first, hold
from scripted_server import KEY, MODEL, Asked, Reply, Server, ask, error, good

from rlver.components.endpoint.answers import RecordedEndpoint
from rlver.components.endpoint.chat import ChatAnswer, EndpointError

SCHEMA = {"type": "object", "properties": {"change": {"type": "integer"}}, "required": ["change"]}


def test_an_answer_cut_off_or_withheld_is_an_answer_that_says_so(tmp_path: Path) -> None:
    refusal = Reply(body=b'{"choices": [{"message": {"content": null, "refusal": "I cannot"}, "finish_reason": "stop"}]}')
    script = first(Reply(body=b'{"choices": [{"message": {"content": null}, "finish_reason": "length"}]}'), refusal)

    async def work(endpoint: RecordedEndpoint, server: Server) -> list[ChatAnswer]:
        return [await endpoint.chat(ask("a")), await endpoint.chat(ask("b"))]

    (cut, withheld), server = hold(tmp_path, script, work)
    assert (cut.text, cut.finish_reason) == ("", "length") and (withheld.text, withheld.finish_reason) == ("I cannot", "content_filter")
    assert len(server.asked) == 2


@pytest.mark.parametrize("content", [b'""', b"null"])
def test_an_answer_without_a_word_is_an_answer(tmp_path: Path, content: bytes) -> None:
    body = b'{"choices": [{"message": {"content": ' + content + b'}, "finish_reason": "stop"}]}'
    answer, server = chat(tmp_path, first(Reply(body=body)))
    assert (answer.text, answer.finish_reason, len(server.asked)) == ("", "stop", 1)


def test_reasoning_comes_apart_from_the_text(tmp_path: Path) -> None:
    reply = Reply(body=b'{"choices": [{"message": {"content": "so", "reasoning_content": "hm"}, "finish_reason": "stop"}]}')
    answer, _ = chat(tmp_path, first(reply))
    assert (answer.text, answer.reasoning, answer.tokens_in, answer.tokens_out) == ("so", "hm", 0, 0)


def test_an_answer_in_parts_is_their_text_and_their_thoughts(tmp_path: Path) -> None:
    thinking = b'{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}'
    body = b'{"choices": [{"message": {"content": [' + thinking + b', {"type": "text", "text": "so"}]}, "finish_reason": "stop"}]}'
    answer, server = chat(tmp_path, first(Reply(body=body)))
    assert (answer.text, answer.reasoning, len(server.asked)) == ("so", "hm", 1)


def test_the_request_says_what_was_asked_and_survives_half_a_character(tmp_path: Path) -> None:
    answer, server = chat(tmp_path, lambda number, asked: good(asked, text="🙂"), ask("你好 \ud83d", schema=SCHEMA))
    sent = server.asked[0]
    assert answer.text == "🙂" and sent.path == "/v1/chat/completions" and sent.headers["authorization"] == f"Bearer {KEY}"
    assert sent.body == {
        "model": MODEL,
        "messages": [{"role": "system", "content": "You are kind."}, {"role": "user", "content": "你好 \ud83d"}],
        "temperature": 0.5,
        "top_p": 1.0,
        "max_tokens": 100,
        "seed": 7,
        "response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA, "strict": True}},
    }


def test_a_server_without_schemas_is_asked_in_words_and_remembered(tmp_path: Path) -> None:
    def script(number: int, asked: Asked) -> Reply:
        if "response_format" in asked.body:
            return error(400, "This response_format type is unavailable now")
        return good(asked)

    async def work(endpoint: RecordedEndpoint, server: Server) -> None:
        await endpoint.chat(ask("a", schema=SCHEMA))
        await endpoint.chat(ask("b", schema=SCHEMA))
        await endpoint.chat(ask("c"))

    _, server = hold(tmp_path, script, work, attempts=1)
    assert ["response_format" in asked.body for asked in server.asked] == [True, False, False, False]
    assert server.asked[1].content.startswith("a\n\nAnswer with one JSON object") and '"change"' in server.asked[1].content
    assert server.asked[3].content == "c"


def test_seeds_stay_where_a_refusal_only_has_the_word_in_it(tmp_path: Path) -> None:
    """Without them another answer comes each time."""

    def script(number: int, asked: Asked) -> Reply:
        return error(400, "doubao-seed-1-6 takes no words like birdseed") if number == 0 else good(asked)

    async def work(endpoint: RecordedEndpoint, server: Server) -> None:
        with pytest.raises(EndpointError):
            await endpoint.chat(ask("a", model="doubao-seed-1-6"))
        await endpoint.chat(ask("b", model="doubao-seed-1-6"))

    _, server = hold(tmp_path, script, work, attempts=1)
    assert ["seed" in asked.body for asked in server.asked] == [True, True]


def test_a_model_that_renamed_max_tokens_is_asked_its_way(tmp_path: Path) -> None:
    def script(number: int, asked: Asked) -> Reply:
        if "max_tokens" in asked.body:
            return error(400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.")
        return good(asked)

    _, server = chat(tmp_path, script)
    assert len(server.asked) == 2 and server.asked[1].body["max_completion_tokens"] == 100
