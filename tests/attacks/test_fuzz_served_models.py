"""What servers of models answer to a policy's client and to a benchmark, and the scenarios that a model writes."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
from collections.abc import Iterator
from pathlib import Path

from broken_models import policy_in
from fuzzing import fuzz, times
from mutation import as_json, mutants
from responses import HEADS, HTTP, RESPONSES, Told, response, told_server
from scripted_server import key, parameters

from rlver.components.ability.backends import Served, ServedLM
from rlver.components.endpoint.opening import open_endpoint
from rlver.components.policy.chat_policy import ChatPolicy
from rlver.tasks.studies.authoring.answers import read_scenario
from rlver.tasks.studies.authoring.asking import PersonaOrder, Unusable
from rlver.tasks.studies.authoring.casting import beginning
from rlver.tasks.studies.authoring.language import language_of

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
SCENARIO = {
    "topic": "a ferry that left early", "ages": [21, 48], "cause": "{name} put the anchor by the kiln and {other} took the ferry",
    "timeline": [{"day": day, "event": f"{{name}} mended the {thing} by the quarry", "feeling": "I felt small"} for day, thing in
                 ((-30, "barrel"), (-12, "lantern"), (-5, "quilt"), (-1, "saddle"))],
    "conflict": {"event": "{other} sold the cedar bench by the river", "people": "{name} and {other}", "inner_cause": "I want the bench back"},
    **{key: [f"I put the {thing} by the {key} of the harbour" for thing in ("acorn", "kettle", "walnut", "magnet")[:count]]
       for key, count in (("attempts", 2), ("openers", 3), ("steps", 4), ("motives", 4), ("hurts", 4))},
    **{key: [f"you put the {thing} by the {key} of the harbour" for thing in ("acorn", "kettle", "walnut", "magnet")[:count]]
       for key, count in (("deeds", 4), ("own_part", 3))},
    "present": "I sit by the pond and count the reeds", "feels_like": "a coat with wet sleeves",
    "lines": [f"I put the button number {number} by the window of the mill" for number in range(14)],
}  # fmt: skip


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


@times
def test_answers_to_a_benchmark(times: int, tmp_path: Path) -> None:
    """Log-probabilities of a prompt and the text that follows it, out of the same answer."""
    folder = policy_in(tmp_path / "policy")
    with served_apart() as told:
        tried = parameters(told.url, attempts=1, breaker_failures=10**9, answer_timeout_s=0.5, retry_after_most_s=0.001)
        model = ServedLM(Served("m", tried, key), str(folder), batch_size=1)

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

    async def open_all(stack: contextlib.AsyncExitStack) -> tuple[Told, ChatPolicy]:
        told = await stack.enter_async_context(told_server())
        tried = parameters(told.url, attempts=1, breaker_failures=10**9, answer_timeout_s=0.5, retry_after_most_s=0.001)
        endpoint = await stack.enter_async_context(open_endpoint(tried, key, tmp_path / "answers.db", replay=False))
        return told, ChatPolicy(endpoint, "model-a", {"en": "Be kind."}, True, False, 0.7, 1.0, 99)

    with asyncio.Runner() as runner:
        stack = contextlib.AsyncExitStack()
        told, policy = runner.run(open_all(stack))
        dialogues = itertools.count()

        def read(content: bytes) -> None:
            told.sent = content
            session = policy.session(str(next(dialogues)), 1, "en")
            for user in ("My sister left.", "And then?"):
                reply = runner.run(session.reply(user))
                f"{reply.said.think}{reply.said.reply}".encode()

        fuzz(mutants([*RESPONSES, *thoughtful], response, HTTP), read, times)
        runner.run(stack.aclose())


@times
def test_scenarios_of_an_author(times: int) -> None:
    begins = beginning(PersonaOrder("en", "train", 8, seed=3), 0)

    def read(content: bytes) -> None:
        try:
            scenario = read_scenario(content.decode("utf-8", "surrogateescape"), begins, language_of("en"))
        except Unusable as error:
            raise ValueError(str(error).encode().decode()) from error
        scenario.model_dump_json().encode()

    fuzz(mutants([SCENARIO, SCENARIO, [SCENARIO]], as_json), read, times)
