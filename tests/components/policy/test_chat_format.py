"""Conversations as tokens: what is built turn by turn is what one render of the whole conversation gives."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from rlver.components.domain.thinking import OPEN
from rlver.components.policy.chat import OPENS_A_THOUGHT, ChatFormat
from rlver.components.policy.tiny.model import END

SYSTEM = "You talk with a friend."
CHATML = (  # Qwen's: a newline after every <|im_end|>, which nobody samples
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


WITHOUT_SYSTEM = (  # Gemma's and older Mistral's manner
    "{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
    "{% for message in messages %}<|{{ message.role }}|>{{ message.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


@pytest.fixture
def chatml(tokenizer: Any) -> Any:
    other = copy.deepcopy(tokenizer)
    other.add_tokens(["<|im_start|>", "<|im_end|>"], special_tokens=True)
    other.eos_token, other.chat_template = "<|im_end|>", CHATML
    return other


@pytest.mark.parametrize("kind", ["tokenizer", "chatml"])
@pytest.mark.parametrize("replies", [["I am so sorry."], ["<think>hm</think>Go on.", "Tell me more.\nAll of it.", " "]])
def test_turn_by_turn_equals_one_render_of_the_whole(kind: str, replies: list[str], request: pytest.FixtureRequest) -> None:
    tokenizer = request.getfixturevalue(kind)
    chat = ChatFormat(tokenizer, SYSTEM)
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": "My sister left."}]
    ids = chat.start("My sister left.")
    for number, reply in enumerate(replies):
        user = f"And then? {number}\n\nI don't know."
        ids += [*tokenizer(reply, add_special_tokens=False)["input_ids"], chat.end_of_turn, *chat.user_turn(user)]
        messages += [{"role": "assistant", "content": reply}, {"role": "user", "content": user}]
    assert ids == tokenizer.apply_chat_template(messages, tokenize=True, add_generation_prompt=True, return_dict=False)


@pytest.mark.parametrize(
    "template",
    [WITHOUT_SYSTEM, WITHOUT_SYSTEM.replace("{{ raise_exception('System role not supported') }}", "{% set messages = messages[1:] %}")],
    ids=["refuses", "leaves out"],
)
def test_a_template_without_a_system_role_gets_the_system_message_in_front_of_the_first_one(template: str, tokenizer: Any) -> None:
    other = copy.deepcopy(tokenizer)
    other.chat_template = template
    chat = ChatFormat(other, SYSTEM)
    assert other.decode(chat.start("hi")) == f"<|user|>{SYSTEM}\n\nhi<|end|><|assistant|>"
    assert other.decode(chat.user_turn("and you?")) == "<|user|>and you?<|end|><|assistant|>"


def test_a_template_that_puts_the_system_message_into_the_last_turn_gets_it_once(chatml: Any) -> None:
    """As Mistral's templates of version 3: whatever turn is last has it in front."""
    told = "{% if loop.last and system %}{{ system }} {% endif %}{{ message.content }}"
    chatml.chat_template = (
        "{% if messages[0].role == 'system' %}{% set system = messages[0].content %}{% set messages = messages[1:] %}{% endif %}"
        + CHATML.replace("{{ message.content }}", told)
    )
    chat = ChatFormat(chatml, SYSTEM)
    assert chatml.decode(chat.start("hi")) == f"<|im_start|>user\n{SYSTEM} hi<|im_end|>\n<|im_start|>assistant\n"
    assert chatml.decode(chat.user_turn("and?")) == "\n<|im_start|>user\nand?<|im_end|>\n<|im_start|>assistant\n"


def test_several_system_messages_go_in_front_where_the_template_knows_none(tokenizer: Any) -> None:
    other = copy.deepcopy(tokenizer)
    other.chat_template = WITHOUT_SYSTEM
    messages = [{"role": role, "content": text} for role, text in (("system", "A"), ("system", "B"), ("user", "hi"))]
    assert other.decode(ChatFormat(other, SYSTEM).of_messages(messages)) == "<|user|>A\n\nB\n\nhi<|end|><|assistant|>"


def test_a_template_that_renders_the_last_reply_otherwise_is_cut_in_the_right_place(chatml: Any) -> None:
    """Qwen3 puts an empty thought into the last reply, and only there."""
    thought = "{% if loop.last and message.role == 'assistant' %}<think>\n\n</think>\n\n{% endif %}"
    chatml.chat_template = CHATML.replace("{{ message.content }}", thought + "{{ message.content }}")
    assert chatml.decode(ChatFormat(chatml, SYSTEM).user_turn("hi")) == "\n<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"


def test_a_template_that_ends_a_whole_conversation_with_a_token_of_its_own_keeps_the_users_words(chatml: Any) -> None:
    """Phi-3 writes `eos_token` where no reply is to follow, and its turns end otherwise."""
    chatml.chat_template = CHATML.replace("{% endif %}", "{% else %}{{ eos_token }}{% endif %}")
    assert chatml.chat_template.endswith("{% else %}{{ eos_token }}{% endif %}")
    assert chatml.decode(ChatFormat(chatml, SYSTEM).user_turn("hi")) == "\n<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    chatml.eos_token = "<|end|>"
    with pytest.raises(ValueError, match=r"does not end turns with '<\|end\|>'"):
        ChatFormat(chatml, SYSTEM).user_turn("hi")


def test_a_template_that_ends_turns_otherwise_than_texts_is_refused_in_one_line(chatml: Any) -> None:
    chatml.eos_token = "<|end|>"
    with pytest.raises(ValueError, match=r"does not end turns with '<\|end\|>'"):
        ChatFormat(chatml, SYSTEM).user_turn("hi")


def test_the_newline_that_qwen_puts_after_a_turn_is_part_of_the_users_turn(chatml: Any, tokenizer: Any) -> None:
    after = chatml.decode(ChatFormat(chatml, SYSTEM).user_turn("hi"))
    assert after == "\n<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    assert tokenizer.decode(ChatFormat(tokenizer, SYSTEM).user_turn("hi")) == "<|user|>hi<|end|><|assistant|>"


def test_a_conversation_begins_with_the_system_message(tokenizer: Any) -> None:
    assert tokenizer.decode(ChatFormat(tokenizer, SYSTEM).start("hi")) == f"<|system|>{SYSTEM}<|end|><|user|>hi<|end|><|assistant|>"


def test_decoding_drops_the_end_of_turn_and_keeps_the_thought_tags(tokenizer: Any) -> None:
    chat = ChatFormat(tokenizer, SYSTEM)
    assert chat.end_of_turn == tokenizer.convert_tokens_to_ids(END)
    sampled = tokenizer("<think>they hurt</think>Tell me more.", add_special_tokens=False)["input_ids"]
    assert chat.decode([*sampled, chat.end_of_turn]) == "<think>they hurt</think>Tell me more."
    assert chat.count("Tell me more.") == len(tokenizer("Tell me more.", add_special_tokens=False)["input_ids"]) > 0
    assert chat.count("") == 0


def test_a_template_that_tells_the_date_tells_always_the_same_one(chatml: Any) -> None:
    chatml.chat_template = "Today is {{ strftime_now('%d %b %Y') }}." + CHATML
    assert chatml.decode(ChatFormat(chatml, SYSTEM).start("hi")).startswith("Today is 01 Jan 2026.<|im_start|>system\n")


def test_the_system_message_is_in_the_language_of_the_user(tokenizer: Any) -> None:
    chat = ChatFormat(tokenizer, SYSTEM, {"zh": "你好。"})
    assert tokenizer.decode(chat.start("嗨", "zh")) == "<|system|>你好。<|end|><|user|>嗨<|end|><|assistant|>"
    assert chat.start("hi", "en") == chat.start("hi") == ChatFormat(tokenizer, SYSTEM).start("hi")


def test_a_thought_opens_as_the_format_of_thoughts_has_it() -> None:
    assert OPENS_A_THOUGHT == OPEN
