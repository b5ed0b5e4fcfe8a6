"""Conversations as token ids: what stands before each policy turn, rendered by the tokenizer's own chat template.

Tokens in, tokens out: what the policy sampled is kept as it is; only the user's part is ever rendered. The text between two policy
turns is found by rendering a fixed short conversation and cutting after the end-of-turn token of its reply, because templates put tokens
there that nobody sampled (Qwen's newline after <|im_end|>); they may also render a reply otherwise once it is no longer the last (Qwen3).
Templates that know no system role get it in front of the first message.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import takewhile
from pathlib import Path
from typing import Any

from rlver.components.domain.printable import first_line

OPENS_A_THOUGHT = "<think>"  # OPEN of domain/thinking.py, whose prompts are no part of what a benchmark depends on
ON_SOME_DAY = (  # in front of a template: transformers hands over no function of ours in place of its clock
    "{% macro strftime_now(form) %}{{ form | replace('%d', '01') | replace('%m', '01') | replace('%b', 'Jan') | replace('%B', 'January')"
    " | replace('%Y', '2026') | replace('%y', '26') | replace('%A', 'Thursday') | replace('%a', 'Thu') | replace('%H', '12')"
    " | replace('%M', '00') | replace('%S', '00') }}{% endmacro %}"
)
MOST_TEMPLATE = 2**16  # characters of a chat template, which is rendered at every turn; the longest have a third of it


@dataclass(frozen=True)
class ChatFormat:
    """A tokenizer with a chat template, the system message, and the end-of-turn token."""

    tokenizer: Any  # a transformers tokenizer
    system: str
    system_of: Mapping[str, str] = field(default_factory=dict)  # by language, where it is another than `system`

    @property
    def end_of_turn(self) -> int:
        token: int = self.tokenizer.eos_token_id
        return token

    def start(self, user: str, language: str = "en") -> list[int]:
        """System message for a user of that language, first user message and the opening of the assistant's turn."""
        return self._render([{"role": "user", "content": user}], system=self.system_of.get(language, self.system))

    def user_turn(self, user: str) -> list[int]:
        """What follows an end-of-turn token the policy sampled, up to the opening of its next turn."""
        # Without the system message: it stands before the first reply, and some templates put it again in front of the last message.
        ids = self.of_messages([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": user}])
        before = self.of_messages([{"role": "user", "content": "a"}]).count(self.end_of_turn)  # end tokens in front of the reply
        if self.of_messages([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]).count(self.end_of_turn) <= before:
            raise ValueError(
                f"the chat template does not end turns with {self.tokenizer.eos_token!r}, the tokenizer's end token, so nobody could tell "
                "where a reply ends; such models are not supported"
            )
        ends = [place for place, token in enumerate(ids) if token == self.end_of_turn]
        return ids[ends[before] + 1 :]

    def must_work(self) -> None:
        """Raise whatever the template raises at the first two turns of a conversation."""
        self.start("Hello")
        self.user_turn("Hello")

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text of a sampled turn, without its end-of-turn token; thought tags are kept."""
        ids = [token for token in token_ids if token != self.end_of_turn]
        text: str = self.tokenizer.decode(ids, skip_special_tokens=False)
        return text

    def count(self, text: str) -> int:
        """Tokens of a text."""
        return len(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def of_messages(self, messages: Sequence[Mapping[str, str]], generation_prompt: bool = True) -> list[int]:
        """A whole conversation, as the template renders it; system messages that it does not know go in front of what follows them.

        Raises whatever a template raises that takes no such order of roles.
        """
        told = list(takewhile(lambda message: message["role"] == "system", messages))
        if 0 < len(told) < len(messages) and not self.takes_system:
            first, *rest = messages[len(told) :]
            messages = [{**first, "content": "\n\n".join(message["content"] for message in (*told, first))}, *rest]
        asked = {"tokenize": True, "add_generation_prompt": generation_prompt, "return_dict": False, **self._clock}
        return list(self.tokenizer.apply_chat_template(list(messages), **asked))

    def _render(self, messages: list[dict[str, str]], generation_prompt: bool = True, system: str | None = None) -> list[int]:
        system = self.system if system is None else system
        return self.of_messages([{"role": "system", "content": system}, *messages], generation_prompt)

    @cached_property
    def _clock(self) -> dict[str, Any]:
        """For templates that tell the date (Llama 3.2, SmolLM3): always the same day, or a prompt would change overnight within a training."""
        template = self.tokenizer.chat_template
        return {"chat_template": ON_SOME_DAY + template} if isinstance(template, str) and "strftime_now" in template else {}

    @cached_property
    def takes_system(self) -> bool:
        """Whether the template renders a system message: some raise an error at one, some leave it out."""
        from jinja2 import TemplateError  # comes with transformers; a policy behind an endpoint needs neither

        messages = [{"role": "system", "content": self.system}, {"role": "user", "content": "a"}]
        try:
            return self.system in self.tokenizer.apply_chat_template(messages, tokenize=False, **self._clock)
        except TemplateError:
            return False


def must_chat(path: Path | str, tokenizer: Any, may_open_thoughts: bool = False) -> None:
    """Raise ValueError in one line unless `tokenizer`, of the model at `path`, renders conversations as `ChatFormat` needs them."""
    if not tokenizer.chat_template:
        raise ValueError(f"{path}: the tokenizer has no chat template, so this is no chat model; take its Instruct or Chat version")
    if len(str(tokenizer.chat_template)) > MOST_TEMPLATE:
        raise ValueError(
            f"{path}: the chat template has more than {MOST_TEMPLATE} characters, which no chat model needs; take another copy"
        )
    chat = ChatFormat(tokenizer, "Be kind.")
    try:
        chat.must_work()
        opening = chat.decode(chat.start("Hello"))
    except Exception as error:  # a template is a program, and the tokenizer may be one that cannot read it
        raise ValueError(f"{path}: the chat template does not work: {first_line(error)}; take another copy of the model") from error
    if opening.rstrip().endswith(OPENS_A_THOUGHT) and not may_open_thoughts:
        raise ValueError(
            f"{path}: the chat template begins every reply with {OPENS_A_THOUGHT}, so all replies would be malformed; take it out of the template's end, "
            "or serve the model and name it openai:MODEL"
        )
