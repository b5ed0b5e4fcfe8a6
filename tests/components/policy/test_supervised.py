"""The warm start: what weighs how much in the loss, and that it learns, the same every time."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from micro import SENTENCES, micro_model

from rlver.components.domain.thinking import system_prompt
from rlver.components.policy import supervised as warm_start_module
from rlver.components.policy.chat import ChatFormat
from rlver.components.policy.supervised import USER_WEIGHT, Example, encode_dialogue, encode_reply, encode_text, warm_start

USERS, THOUGHT = ("My sister left.", "It hurts.", "Thanks."), ("<think>they hurt</think>I am so sorry.", "<think>more</think>Go on.")


def weighing(tokenizer: Any, example: Example, weight: float) -> str:
    """The text of the tokens that have this weight."""
    return str(tokenizer.decode([token for token, w in zip(example.ids, example.weights, strict=True) if w == weight]))


@pytest.mark.parametrize("thinking", [True, False])
def test_the_supporters_words_weigh_one_the_users_little_and_the_prompt_nothing(thinking: bool, tokenizer: Any) -> None:
    spoken = THOUGHT if thinking else ("I am so sorry.", "Go on.")
    example = encode_dialogue(tokenizer, USERS, spoken, thinking)
    assert weighing(tokenizer, example, 1.0) == f"{spoken[0]}<|end|>{spoken[1]}<|end|>"
    assert weighing(tokenizer, example, 0.0) == tokenizer.decode(ChatFormat(tokenizer, system_prompt(thinking)).start("My sister left."))
    assert weighing(tokenizer, example, USER_WEIGHT) == "<|user|>It hurts.<|end|><|assistant|><|user|>Thanks.<|end|><|assistant|>"


def test_a_dialogue_is_encoded_as_the_policy_will_see_it(tokenizer: Any) -> None:
    chat = ChatFormat(tokenizer, system_prompt(True))
    example = encode_dialogue(tokenizer, USERS, THOUGHT, True)
    first = [*tokenizer("<think>they hurt</think>I am so sorry.", add_special_tokens=False)["input_ids"], chat.end_of_turn]
    expected = [*chat.start("My sister left."), *first, *chat.user_turn("It hurts.")]
    assert list(example.ids[: len(expected)]) == expected


def test_single_replies_and_plain_text_stand_between_their_boundaries(tokenizer: Any) -> None:
    reply = encode_reply(tokenizer, THOUGHT[0])
    assert tokenizer.decode(reply.ids) == "<|assistant|><think>they hurt</think>I am so sorry.<|end|>"
    text = encode_text(tokenizer, "Water is wet.")
    assert tokenizer.decode(text.ids) == "<|end|>Water is wet.<|end|>"
    for example in (reply, text):
        assert example.weights == (0.0, *[1.0] * (len(example.ids) - 1))


def trained(tokenizer: Any, lessons: list[list[Example]], **changes: Any) -> tuple[Any, Any, list[tuple[int, int]]]:
    model, steps = micro_model(seed=2), list[tuple[int, int]]()
    options = {"learning_rate": 0.02, "batch_tokens": 100, "max_seconds": 0.0, "seed": 5} | changes
    result = warm_start(model, lessons, **options, on_step=lambda step, of, loss: steps.append((step, of)))
    return model, result, steps


def test_it_learns_what_it_is_shown_and_the_same_twice(tokenizer: Any) -> None:
    lessons = [[encode_text(tokenizer, text) for text in SENTENCES] * 60, [encode_dialogue(tokenizer, USERS, THOUGHT, True)] * 20]
    model, result, steps = trained(tokenizer, lessons)
    assert result.last_loss < 0.6 * result.first_loss and not result.cut_short
    assert result.steps == len(steps) and [step for step, _ in steps] == list(range(1, len(steps) + 1))
    assert {of for _, of in steps} == {len(steps)}
    assert result.tokens == sum(len(example.ids) for lesson in lessons for example in lesson)
    assert not model.training
    again, _, _ = trained(tokenizer, lessons)
    for one, other in zip(model.parameters(), again.parameters(), strict=True):
        assert torch.equal(one, other)


def test_a_time_limit_ends_it_and_is_told(tokenizer: Any) -> None:
    lessons = [[encode_text(tokenizer, text) for text in SENTENCES] * 200]
    _, result, steps = trained(tokenizer, lessons, max_seconds=0.05)
    assert result.cut_short and 0 < result.steps < steps[0][1]


def test_a_slow_machine_gives_every_lesson_its_share_of_the_time(tokenizer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step takes a second; eight batches in four seconds make two of each of the two lessons."""
    lesson = [encode_text(tokenizer, "Water is wet.")] * 4
    taken: list[int] = []
    monkeypatch.setattr(warm_start_module.time, "monotonic", lambda: float(len(taken)))
    result = warm_start(micro_model(), [lesson, lesson], 0.01, 1, 4.0, 5, lambda step, steps, loss: taken.append(step))
    assert taken == [1, 2, 5, 6] and result.cut_short


def test_a_model_that_scales_its_logits_is_not_taught(tokenizer: Any) -> None:
    """Its loss would be that of other logits."""
    model = micro_model()
    model.config.logits_scaling = 8.0
    with pytest.raises(
        ValueError, match=r"qwen2 scales its logits \(logits_scaling\), which training does not do yet; train another model"
    ):
        warm_start(model, [[encode_text(tokenizer, "Water is wet.")]], 0.01, 100, 0.0, 5)


def test_a_lesson_may_be_empty(tokenizer: Any) -> None:
    _, result, _ = trained(tokenizer, [[], [encode_text(tokenizer, "Water is wet.")]])
    assert result.steps == 1


def test_tokens_without_weight_teach_nothing(tokenizer: Any) -> None:
    """The prompt's tokens may be anything: the weights that come out are those of the weighted ones alone, in their context."""
    ids = encode_text(tokenizer, "Tell me more about it.").ids
    first = Example(ids, (0.0,) * (len(ids) - 1) + (1.0,))
    model, result, _ = trained(tokenizer, [[first] * 600])
    assert result.last_loss < 0.1
    with torch.no_grad():
        likely = model(torch.tensor([ids[:-1]])).logits[0].argmax(-1).tolist()
    assert likely[-1] == ids[-1] and likely[:-1] != list(ids[1:-1])
