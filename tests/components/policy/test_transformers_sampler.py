"""The in-process sampler: its log-probabilities are the model's, whatever was cached, batched or forgotten before."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch

from rlver.components.policy import transformers_sampler
from rlver.components.policy.draw import draw
from rlver.components.policy.sampler import Sample, SampleRequest
from rlver.components.policy.transformers_sampler import TransformersSampler

USER = (5, 6, 7, 8, 9, 10)


def sampler_of(model: Any, temperature: float = 1.0, rows: int = 8, top_p: float = 1.0, capacity: int = 160) -> TransformersSampler:
    sampler = TransformersSampler(model, model.config.eos_token_id, temperature, top_p, rows, capacity)
    sampler.start()
    return sampler


def prompt(number: int) -> tuple[int, ...]:
    """Prompts of different lengths."""
    return tuple(20 + (number * 7 + place) % 90 for place in range(4 + 3 * number))


async def talk(
    sampler: TransformersSampler, numbers: Sequence[int], turns: int, max_tokens: int = 9
) -> dict[int, list[tuple[tuple[int, ...], Sample]]]:
    """(context, sample) of every turn of dialogues `numbers`, all at once; a cut-off turn is closed as in an episode."""

    async def one(number: int) -> list[tuple[tuple[int, ...], Sample]]:
        context, said = prompt(number), []
        for turn in range(turns):
            sample = await sampler.sample(SampleRequest(f"d{number}", context, 1000 * number + turn, max_tokens))
            said.append((context, sample))
            closed = () if sample.finished else (sampler.end_of_turn,)
            context = (*context, *sample.token_ids, *closed, *USER[: 1 + (number + turn) % 6])
        sampler.forget(f"d{number}")
        return said

    return dict(zip(numbers, await asyncio.gather(*(one(number) for number in numbers)), strict=True))


def full_logprobs(model: Any, context: tuple[int, ...], ids: tuple[int, ...], temperature: float) -> torch.Tensor:
    with torch.no_grad():
        logits = model(torch.tensor([[*context, *ids]])).logits[0, len(context) - 1 : -1]
    return (logits / temperature).log_softmax(-1)[torch.arange(len(ids)), torch.tensor(ids)]


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_logprobs_are_those_of_a_full_forward_over_many_turns(model: Any, temperature: float) -> None:
    talks = asyncio.run(talk(sampler_of(model, temperature), range(6), turns=4))
    for said in talks.values():
        assert len(said) == 4
        for context, sample in said:
            expected = full_logprobs(model, context, sample.token_ids, temperature)
            torch.testing.assert_close(torch.tensor(sample.logprobs), expected, atol=1e-4, rtol=0)


def test_a_dialogue_says_the_same_alone_or_among_others_in_any_row(model: Any) -> None:
    together = asyncio.run(talk(sampler_of(model), range(8), turns=3))
    for number in range(8):
        assert asyncio.run(talk(sampler_of(model), [number], turns=3))[number] == [
            (context, Sample(sample.token_ids, pytest.approx(sample.logprobs, abs=1e-5), sample.finished))  # type: ignore[arg-type]
            for context, sample in together[number]
        ]
    backwards = asyncio.run(talk(sampler_of(model, rows=20), range(7, -1, -1), turns=3))
    assert all([s.token_ids for _, s in backwards[n]] == [s.token_ids for _, s in together[n]] for n in range(8))


def test_what_is_read_in_parts_is_read_the_same(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    at_once = asyncio.run(talk(sampler_of(model), range(8), turns=3))
    monkeypatch.setattr(transformers_sampler, "READ_AT_ONCE", 40)
    widths = read_widths(monkeypatch)
    in_parts = asyncio.run(talk(sampler_of(model), range(8), turns=3))
    assert max(rows * width for rows, width in widths) <= 40 and max(rows for rows, _ in widths) > 1
    for number, said in at_once.items():
        assert [sample.token_ids for _, sample in in_parts[number]] == [sample.token_ids for _, sample in said]
        for (_, one), (_, other) in zip(in_parts[number], said, strict=True):
            assert one.logprobs == pytest.approx(other.logprobs, abs=1e-5)


def read_widths(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """(rows, tokens a row) of every forward pass from now on."""
    widths, forward = list[tuple[int, int]](), TransformersSampler._forward

    def watched(self: Any, cache: Any, live: list[int], row_of_B: list[int], new_B: list[list[int]], length_B: list[int]) -> torch.Tensor:
        widths.append((len(live), max(len(new_B[index]) for index in live) or 1))
        return forward(self, cache, live, row_of_B, new_B, length_B)

    monkeypatch.setattr(TransformersSampler, "_forward", watched)
    return widths


def test_another_seed_says_something_else(model: Any) -> None:
    async def first(seed: int) -> tuple[int, ...]:
        return (await sampler_of(model).sample(SampleRequest("d", prompt(2), seed, 12))).token_ids

    said = [asyncio.run(first(seed)) for seed in range(6)]
    assert len(set(said)) >= 5
    assert asyncio.run(first(3)) == said[3]


def test_greedy_sampling_is_what_generate_gives(model: Any) -> None:
    talks = asyncio.run(talk(sampler_of(model, temperature=0.0), range(4), turns=2, max_tokens=12))
    for said in talks.values():
        for context, sample in said:
            ids = torch.tensor([context])
            expected = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=12, do_sample=False)[0, len(context) :]
            assert list(sample.token_ids) == expected.tolist()
            assert sample.logprobs == (0.0,) * len(sample.token_ids)


def test_a_turn_ends_with_the_end_of_turn_token_or_at_its_limit(model: Any) -> None:
    end = model.config.eos_token_id
    samples = [sample for said in asyncio.run(talk(sampler_of(model), range(8), turns=6, max_tokens=7)).values() for _, sample in said]
    for sample in samples:
        assert sample.finished == (sample.token_ids[-1] == end)
        assert end not in sample.token_ids[:-1]
        assert len(sample.token_ids) == len(sample.logprobs) <= 7 and (sample.finished or len(sample.token_ids) == 7)
    assert not all(sample.finished for sample in samples)


def test_an_end_of_turn_that_the_model_likes_is_taken(tokenizer: Any, model: Any) -> None:
    likely = TransformersSampler(model, int(full_next(model, prompt(1))), 0.0, 1.0, rows=1, capacity=64)
    likely.start()
    sample = asyncio.run(likely.sample(SampleRequest("d", prompt(1), 1, 8)))
    assert sample.finished and len(sample.token_ids) == 1


def full_next(model: Any, context: tuple[int, ...]) -> torch.Tensor:
    with torch.no_grad():
        return model(torch.tensor([context])).logits[0, -1].argmax()  # type: ignore[no-any-return]


def test_turns_of_different_lengths_go_into_one_batch(model: Any) -> None:
    async def both() -> list[Sample]:
        sampler = sampler_of(model)
        requests = [SampleRequest("a", prompt(1), 1, 3), SampleRequest("b", prompt(2), 2, 11)]
        return list(await asyncio.gather(*(sampler.sample(request) for request in requests)))

    short, long = asyncio.run(both())
    assert len(short.token_ids) <= 3 and len(long.token_ids) <= 11
    alone = asyncio.run(sampler_of(model).sample(SampleRequest("b", prompt(2), 2, 11)))
    assert alone.token_ids == long.token_ids


def test_a_context_that_was_rewritten_is_read_again(model: Any) -> None:
    async def rewritten() -> Sample:
        sampler = sampler_of(model)
        await sampler.sample(SampleRequest("d", prompt(4), 1, 6))
        return await sampler.sample(SampleRequest("d", prompt(3), 2, 6))

    assert asyncio.run(rewritten()).token_ids == asyncio.run(sampler_of(model).sample(SampleRequest("d", prompt(3), 2, 6))).token_ids


def test_the_same_context_may_be_sampled_again(model: Any) -> None:
    async def twice() -> list[Sample]:
        sampler = sampler_of(model)
        return [await sampler.sample(SampleRequest("d", prompt(3), 5, 6)) for _ in range(2)]

    first, second = asyncio.run(twice())
    assert first.token_ids == second.token_ids
    assert first.logprobs == pytest.approx(second.logprobs, abs=1e-5)


def test_a_forgotten_row_serves_the_next_dialogue_without_a_trace(model: Any) -> None:
    async def one_after_another() -> list[Sample]:
        sampler, said = sampler_of(model, rows=1), []
        for number in (6, 2):
            said.append(await sampler.sample(SampleRequest(f"d{number}", prompt(number), number, 8)))
            sampler.forget(f"d{number}")
        return said

    fresh = asyncio.run(sampler_of(model, rows=1).sample(SampleRequest("d2", prompt(2), 2, 8)))
    assert asyncio.run(one_after_another())[1].token_ids == fresh.token_ids


def test_a_dialogue_that_is_forgotten_while_others_speak_leaves_their_rows_alone(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """`forget` comes in another thread than the one that moves rows."""
    sampler, rows = sampler_of(model, rows=2), list[list[str | None]]()
    forward = TransformersSampler._forward

    def and_meanwhile(self: TransformersSampler, *arguments: Any) -> torch.Tensor:
        if not rows:
            self.forget("d1")
        rows.append(list(self._in_row))
        return forward(self, *arguments)

    async def speak(number: int) -> Sample:
        return await sampler.sample(SampleRequest(f"d{number}", prompt(number), number, 8))

    asyncio.run(speak(1))
    with monkeypatch.context() as patch:
        patch.setattr(TransformersSampler, "_forward", and_meanwhile)
        asyncio.run(speak(2))
    assert rows and all(row == ["d2", "d1"] for row in rows)
    asyncio.run(speak(3))
    assert sampler._in_row == ["d3", "d2"], "its row was free again"


def test_a_dialogue_that_comes_back_after_it_was_forgotten_is_read_again(model: Any) -> None:
    async def said(rows: int) -> Sample:
        sampler = sampler_of(model, rows=rows)
        first = await sampler.sample(SampleRequest("d", prompt(6), 6, 8))
        if rows == 1:
            sampler.forget("d")
            await sampler.sample(SampleRequest("e", prompt(7), 7, 8))
            sampler.forget("e")
        return await sampler.sample(SampleRequest("d", (*prompt(6), *first.token_ids, *USER), 9, 8))

    assert asyncio.run(said(rows=1)).logprobs == pytest.approx(asyncio.run(said(rows=2)).logprobs, abs=1e-5)


def test_after_a_change_of_the_weights_start_reads_everything_anew(model: Any) -> None:
    import copy

    other = copy.deepcopy(model)

    async def before_and_after() -> tuple[tuple[int, ...], Sample]:
        sampler = sampler_of(other)
        first = await sampler.sample(SampleRequest("d", prompt(3), 1, 6))
        with torch.no_grad():
            for weight in other.parameters():
                weight.add_(0.05 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(1)))
        sampler.start()
        context = (*prompt(3), *first.token_ids, *USER)
        return context, await sampler.sample(SampleRequest("d", context, 2, 6))

    context, sample = asyncio.run(before_and_after())
    torch.testing.assert_close(torch.tensor(sample.logprobs), full_logprobs(other, context, sample.token_ids, 1.0), atol=1e-4, rtol=0)


def test_more_open_dialogues_than_rows_is_an_error_that_says_so(model: Any) -> None:
    with pytest.raises(RuntimeError, match="more than 2 dialogues are open"):
        asyncio.run(talk(sampler_of(model, rows=2), range(3), turns=1))


def test_a_context_that_does_not_fit_is_refused_before_sampling(model: Any) -> None:
    with pytest.raises(ValueError, match=r"d: 7 \+ 30 tokens > 32"):
        asyncio.run(sampler_of(model, capacity=32).sample(SampleRequest("d", prompt(1), 1, 30)))


def test_nothing_is_sampled_before_start(model: Any) -> None:
    sampler = TransformersSampler(model, model.config.eos_token_id, 1.0, 1.0, rows=1, capacity=32)
    with pytest.raises(RuntimeError, match="start"):
        asyncio.run(sampler.sample(SampleRequest("d", prompt(1), 1, 4)))


def test_a_model_in_training_is_sampled_without_dropout_and_trains_on_afterwards(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    in_training: list[bool] = []
    forward = TransformersSampler._forward

    def watched(self: TransformersSampler, *arguments: Any) -> Any:
        in_training.append(self.model.training)
        return forward(self, *arguments)

    monkeypatch.setattr(TransformersSampler, "_forward", watched)
    model.train()
    try:
        attention = model.config._attn_implementation
        asyncio.run(sampler_of(model).sample(SampleRequest("d", prompt(1), 1, 4)))
        assert in_training and not any(in_training)
        assert model.training and model.config._attn_implementation == attention
    finally:
        model.eval()


HALF_THIRD_FIFTH = torch.log(torch.tensor([[0.5, 0.3, 0.2]]))


def drawn(uniform: float, temperature: float = 1.0, top_p: float = 1.0, logits: torch.Tensor = HALF_THIRD_FIFTH) -> tuple[int, float]:
    token, logprob = draw(logits, torch.tensor([uniform]), temperature, top_p)
    return int(token), float(logprob)


def test_a_draw_inverts_the_distribution_function() -> None:
    assert [drawn(u)[0] for u in (0.0, 0.499, 0.501, 0.799, 0.801, 0.999999)] == [0, 0, 1, 1, 2, 2]
    assert drawn(0.6)[1] == pytest.approx(math.log(0.3))


def test_temperature_raises_probabilities_to_its_inverse() -> None:
    # 1/T = 2: .25, .09, .04 over .38 -> .658, .237, .105
    assert [drawn(u, temperature=0.5)[0] for u in (0.65, 0.66, 0.89, 0.90)] == [0, 1, 1, 2]
    assert drawn(0.7, temperature=0.5)[1] == pytest.approx(math.log(0.09 / 0.38))
    assert drawn(0.99, temperature=0.0) == (0, 0.0)


def test_top_p_keeps_the_likeliest_tokens_that_reach_it_and_shares_the_rest_out() -> None:
    # .6: .5 is not enough, .5 + .3 is -> .625, .375
    assert [drawn(u, top_p=0.6)[0] for u in (0.62, 0.63, 0.999999)] == [0, 1, 1]
    assert drawn(0.9, top_p=0.6)[1] == pytest.approx(math.log(0.375))
    assert drawn(0.999999, top_p=0.45) == (0, pytest.approx(0.0))
    shuffled = torch.log(torch.tensor([[0.2, 0.5, 0.3]]))
    assert [drawn(u, top_p=0.6, logits=shuffled)[0] for u in (0.0, 0.62, 0.63, 0.999999)] == [1, 1, 2, 2]


def test_an_impossible_token_is_never_drawn() -> None:
    logits = torch.log(torch.tensor([[0.0, 0.5, 0.0, 0.5, 0.0]]))
    assert {drawn(u, logits=logits)[0] for u in (0.0, 0.25, 0.5, 0.75, 1.0 - 1e-7)} == {1, 3}


def test_rows_are_drawn_apart() -> None:
    logits = torch.log(torch.tensor([[0.5, 0.5], [0.9, 0.1], [0.1, 0.9]]))
    token, logprob = draw(logits, torch.tensor([0.6, 0.6, 0.6]), 1.0, 1.0)
    assert token.tolist() == [1, 0, 1]
    assert logprob.tolist() == pytest.approx([math.log(0.5), math.log(0.9), math.log(0.9)])
