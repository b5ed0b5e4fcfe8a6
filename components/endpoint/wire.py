"""The bytes of the protocol: a request as the body of /chat/completions, and an answer out of a response's JSON.

Servers differ in what they take. A `Dialect` is what one model at one server has been found to understand; a refusal that names the
reason leads to the next one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from components.endpoint.bodies import UnusableBody, parse_json
from components.endpoint.chat import ChatAnswer, ChatRequest, Message
from components.endpoint.faults import Hiccup
from components.endpoint.key import Key
from components.printable import whole_characters

_IN_WORDS = "\n\nAnswer with one JSON object that follows this JSON schema, and with nothing else:\n{schema}"
_MOST_TOKENS = 2**31 - 1  # that a server may say it has counted
_NOT_COMPATIBLE = "check that the address is that of an OpenAI-compatible endpoint; answered calls are kept"


@dataclass(frozen=True)
class Dialect:
    """Whether a schema goes as response_format or in words, the field that bounds the answer (newer OpenAI models renamed it), and
    whether a seed is sent (without it another answer comes, of the same distribution)."""

    json_schema: bool = True
    max_tokens_field: str = "max_tokens"
    seed: bool = True

    def body(self, request: ChatRequest) -> bytes:
        messages = list(request.messages)
        body: dict[str, Any] = {
            "model": request.model,
            "temperature": request.temperature,
            "top_p": request.top_p,
            self.max_tokens_field: request.max_tokens,
        }
        if request.seed is not None and self.seed:
            body["seed"] = request.seed
        if request.schema is not None and self.json_schema:
            form = {"name": "answer", "schema": request.schema, "strict": True}
            body["response_format"] = {"type": "json_schema", "json_schema": form}
        elif request.schema is not None:
            schema = json.dumps(request.schema, ensure_ascii=False)
            messages[-1] = Message(messages[-1].role, messages[-1].content + _IN_WORDS.format(schema=schema))
        body["messages"] = [{"role": message.role, "content": message.content} for message in messages]
        return json.dumps(body, allow_nan=False).encode("ascii")

    def after(self, request: ChatRequest, said: str) -> Dialect | None:
        """The dialect to try when a 400 or 422 came with these words; None when they are about something else."""
        if "max_completion_tokens" in said and self.max_tokens_field == "max_tokens":
            return replace(self, max_tokens_field="max_completion_tokens")
        if ("response_format" in said or "json_schema" in said) and self.json_schema and request.schema is not None:
            return replace(self, json_schema=False)
        if "seed" in said and self.seed and request.seed is not None:
            return replace(self, seed=False)
        return None


def parse_answer(content: bytes, seconds: float, key: Key) -> ChatAnswer:
    """The answer in the body of a response with status 200, without the key and without halves of characters.

    Raises Hiccup for anything but a complete chat completion with text, a refusal, or an answer cut off before its first word.
    """
    if not content.strip():
        raise Hiccup("empty", "an empty body", _NOT_COMPATIBLE, may_have_cost=True)
    try:
        body = parse_json(content)
        choice = body["choices"][0]
        message = choice["message"]
        text, refusal, reasoning = (
            message.get("content"),
            message.get("refusal"),
            message.get("reasoning_content") or message.get("reasoning"),
        )
        finish_reason = choice.get("finish_reason") or "unknown"
        usage = body.get("usage")
    except UnusableBody as error:
        raise malformed(str(error)) from None
    except (KeyError, IndexError, TypeError, AttributeError):
        raise malformed("no choice with a message in it") from None
    fields: tuple[tuple[str, Any, Any], ...] = (
        ("content", text, str | None),
        ("refusal", refusal, str | None),
        ("reasoning", reasoning, str | None),
        ("finish_reason", finish_reason, str),
        ("usage", usage, dict | None),
    )
    for name, value, kind in fields:
        if not isinstance(value, kind):
            raise malformed(f"{name} is of type {type(value).__name__}")
    tokens_in, tokens_out = _count(usage or {}, "prompt_tokens"), _count(usage or {}, "completion_tokens")
    if refusal and not text:
        text, finish_reason = refusal, "content_filter"
    if not text and finish_reason not in {"length", "content_filter"}:
        raise Hiccup("empty", "an empty answer", "ask another model or change the prompt", may_have_cost=True)
    text, reasoning, finish_reason = (whole_characters(key.hide_secret(said)) for said in (text or "", reasoning or "", finish_reason))
    return ChatAnswer(text, reasoning or None, finish_reason, tokens_in, tokens_out, seconds, cached=False)


def _count(usage: Mapping[str, Any], name: str) -> int:
    """A number that money is computed from, and the budget: 0 where the server does not count. Raises Hiccup for any that is no count."""
    count = usage.get(name)
    if count is None:
        return 0
    if type(count) is not int or not 0 <= count <= _MOST_TOKENS:  # a bool is an int to isinstance
        raise malformed(f"{name} is no number of tokens")
    return count


def malformed(what: str) -> Hiccup:
    return Hiccup("malformed", f"a malformed answer ({what})", _NOT_COMPATIBLE, may_have_cost=True)
