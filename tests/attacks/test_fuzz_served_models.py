"""What servers of models answer to a policy's client and to a benchmark."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from broken_models import policy_in
from fuzzing import fuzz, times
from mutation import mutants
from responses import HEADS, HTTP, RESPONSES, Told, asked_once, response, told_endpoint, told_server
from scripted_server import key

from rlver.components.ability.backends import Served, ServedLM
from rlver.components.policy.chat_policy import ChatPolicy

HEARD = {"index": 0, "text": "Because I am here.", "finish_reason": "stop"}
LOGPROBS = {
    "tokens": ["a", "b", "c", "d"],
    "token_logprobs": [None, -1.5, -0.5, -2],
    "top_logprobs": [None, {"b": -0.5}, {"c": -0.5}, {"d": -2}],
}
COMPLETED = [
    [200, HEADS, {"id": "1", "choices": [{**HEARD, "logprobs": LOGPROBS}], "usage": {"prompt_tokens": 3, "completion_tokens": 1}}],
    [200, HEADS, {"choices": [{"index": 0, "text": "<think>no</think>Yes", "logprobs": LOGPROBS}]}],
    [503, HEADS, {"error": {"message": "busy"}}],
]
NUMBERS = (
    "-1e309",
    "[-1, -2, -3, -4]",
    "[null, -1, -2, -3]",
    '[null, {"a": "b"}, {"a": null}, {}]',
    '[{}, [], 0, ""]',
    "1" + "0" * 400,
    "[true]",
)


@contextlib.contextmanager
def served_apart() -> Iterator[Told]:
    """The server in a loop of its own, for clients that begin one for each question."""
    loop, opened, stack = asyncio.new_event_loop(), threading.Event(), contextlib.AsyncExitStack()
    found: list[Told] = []

    async def begin() -> None:
        found.append(await stack.enter_async_context(told_server()))
        opened.set()

    thread = threading.Thread(target=lambda: (loop.create_task(begin()), loop.run_forever()))
    thread.start()
    try:
        assert opened.wait(10)
        yield found[0]
    finally:
        asyncio.run_coroutine_threadsafe(stack.aclose(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


@pytest.mark.long
@times
def test_answers_to_a_benchmark(times: int, tmp_path: Path) -> None:
    """Log-probabilities of a prompt and the text that follows it, out of the same answer."""
    folder = policy_in(tmp_path / "policy")
    with served_apart() as told:
        model = ServedLM(Served("m", asked_once(told), key), str(folder), batch_size=1)

        def read(content: bytes) -> None:
            told.sent = content
            [(likelihood, greedy)] = model._loglikelihood_tokens([(("a", "bc"), [1], [2, 3])])
            assert -float("inf") < likelihood < float("inf") and isinstance(greedy, bool)
            [text] = model._written({"until": ["\n"], "max_gen_toks": 4}, [("Hello", {})])
            text.encode()

        fuzz(mutants(COMPLETED, response, (*HTTP, *NUMBERS)), read, times)


@times
def test_answers_to_the_client_of_a_policy(times: int, tmp_path: Path) -> None:
    """A thought may stand in front of them, and every answer is one more turn of a dialogue."""
    thoughtful = [
        [200, HEADS, {"choices": [{"index": 0, "finish_reason": "length", "message": {"role": "assistant", "content": text}}]}]
        for text in ("<think>Be kind.</think>I am here.", "</think>", "<think>")
    ]

    with told_endpoint(tmp_path / "answers.db") as (runner, told, endpoint):
        policy = ChatPolicy(endpoint, "model-a", {"en": "Be kind."}, True, False, 0.7, 1.0, 99)
        dialogues = itertools.count()

        def read(content: bytes) -> None:
            told.sent = content
            session = policy.session(str(next(dialogues)), 1, "en")
            for user in ("My sister left.", "And then?"):
                reply = runner.run(session.reply(user))
                f"{reply.said.think}{reply.said.reply}".encode()

        fuzz(mutants([*RESPONSES, *thoughtful], response, HTTP), read, times)
