"""One dialogue: tokens and masks as sampled, stops, what the user hears, and failures as data."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace

import pytest
from fakes import ASSISTANT, END, NEWLINE, RULES, SPEAKING, TAG, USER, FakeSampler, FakeUser, LetterChat, job

from rlver.components.domain.emotion import check_arithmetic, check_stops
from rlver.components.domain.protocols import turn_seed
from rlver.components.domain.transcript import StopReason
from rlver.components.policy.token_policy import Speaking, TokenPolicy
from rlver.components.rollout.episode import Rollout, check_failed, run_episode


def hold(user: FakeUser, sampler: FakeSampler | None = None, speaking: Speaking = SPEAKING) -> Rollout:
    return asyncio.run(run_episode(job(0), user, TAG, TokenPolicy(sampler or FakeSampler(), LetterChat(), speaking), RULES))


def says(*texts: str) -> FakeSampler:
    return FakeSampler(lambda dialogue_id, turn: texts[turn])


def test_a_mask_marks_exactly_what_was_sampled() -> None:
    rollout = hold(FakeUser("U", [1, 1, 1, 1]), says("one", "two", "three", "four"))
    sampled = [*map(ord, "one"), END, *map(ord, "two"), END, *map(ord, "three"), END, *map(ord, "four"), END]
    assert [t for t, policy in zip(rollout.completion_ids, rollout.is_policy_T, strict=True) if policy] == sampled
    heard = [NEWLINE, USER, *map(ord, "U 1"), ASSISTANT]
    assert [t for t, policy in zip(rollout.completion_ids, rollout.is_policy_T, strict=True) if not policy][: len(heard)] == heard
    assert rollout.prompt_ids == (USER, *map(ord, "U 0"), ASSISTANT)


def test_the_first_prompt_is_in_the_language_of_the_persona() -> None:
    class Asked(LetterChat):
        def start(self, user: str, language: str = "en") -> list[int]:
            return [*map(ord, language), *super().start(user)]

    one = job(0)
    one = replace(one, persona=one.persona.model_copy(update={"language": "zh"}))
    rollout = asyncio.run(run_episode(one, FakeUser("U", [1] * 4), TAG, TokenPolicy(says(*"abcd"), Asked(), SPEAKING), RULES))
    assert rollout.prompt_ids[:2] == tuple(map(ord, "zh"))


def test_every_token_knows_its_turn_and_only_sampled_ones_have_a_logprob() -> None:
    rollout = hold(FakeUser("U", [1] * 4), says("a", "b", "c", "d"))
    between = len(LetterChat().user_turn("U 1"))
    assert rollout.turn_T == (0,) * 2 + ((1,) * (between + 2)) + ((2,) * (between + 2)) + ((3,) * (between + 2))
    for policy, logprob in zip(rollout.is_policy_T, rollout.logprob_T, strict=True):
        assert (logprob < 0) if policy else (logprob == 0.0)
    assert len(rollout.completion_ids) == len(rollout.is_policy_T) == len(rollout.turn_T) == len(rollout.logprob_T)


def test_what_is_trained_on_is_what_the_sampler_was_given_and_gave() -> None:
    sampler = says("eins", "zwei", "drei", "vier")
    rollout = hold(FakeUser("U", [1] * 4), sampler)
    whole = rollout.prompt_ids + rollout.completion_ids
    for turn, request in enumerate(sampler.requests):
        assert request.context_ids == whole[: len(request.context_ids)]
        assert request.seed == turn_seed(job(0).dialogue_id, job(0).seed, turn)
    assert whole[len(sampler.requests[-1].context_ids) :] == (*map(ord, "vier"), END)


def test_there_is_one_end_of_turn_per_policy_turn() -> None:
    rollout = hold(FakeUser("U", [1] * 4))
    assert rollout.completion_ids.count(END) == len(rollout.dialogue.turns) == 4


def test_a_turn_that_was_cut_off_gets_an_end_of_turn_that_is_not_trained() -> None:
    rollout = hold(FakeUser("U", [1] * 4), says("x" * 99, "y", "z", "w"), replace(SPEAKING, max_reply_tokens=5))
    assert rollout.completion_ids[:6] == (*map(ord, "xxxxx"), END)
    assert rollout.is_policy_T[:6] == (True,) * 5 + (False,)
    assert rollout.completion_ids.count(END) == 4
    assert rollout.dialogue.turns[0].assistant == "xxxxx"
    assert rollout.cut_off == 1


def test_thoughts_are_kept_but_never_reach_the_user() -> None:
    user = FakeUser("U", [1] * 4)
    rollout = hold(user, FakeSampler(lambda d, turn: f"<think>they need {turn}</think>hello {turn}"), replace(SPEAKING, thinking=True))
    assert user.heard == [f"hello {turn}" for turn in range(4)]
    first = rollout.dialogue.turns[0]
    assert (first.think, first.assistant, first.think_tokens, first.reply_tokens) == ("they need 0", "hello 0", 11, 7)
    assert rollout.well_formed


def test_stripped_thoughts_are_trained_on_but_not_read_again() -> None:
    sampler = FakeSampler(lambda d, turn: f"<think>they need {turn}</think>hello {turn}")
    rollout = hold(FakeUser("U", [1] * 4), sampler, replace(SPEAKING, thinking=True, strip_thoughts=True))
    assert LetterChat().decode(sampler.requests[2].context_ids) == "".join(
        ["\x01U 0\x02", "hello 0", "\n\x01U 1\x02", "hello 1", "\n\x01U 2\x02"]
    )
    said = [token for token, policy in zip(rollout.completion_ids, rollout.is_policy_T, strict=True) if policy]
    assert LetterChat().decode(said) == "".join(f"<think>they need {turn}</think>hello {turn}" for turn in range(4))
    for turn, request in enumerate(sampler.requests):
        before = [
            token
            for token, of, stays in zip(rollout.completion_ids, rollout.turn_T, rollout.in_later_context_T, strict=True)
            if stays and of <= turn
        ]
        assert request.context_ids == (*rollout.prompt_ids, *before)[: len(request.context_ids)]


def test_of_a_malformed_turn_nothing_is_read_again_but_its_end() -> None:
    good = "<think>t</think>hi"
    sampler = says(good, "secret</think>hi", good, good)
    hold(FakeUser("U", [1] * 4), sampler, replace(SPEAKING, thinking=True, strip_thoughts=True))
    contexts = [LetterChat().decode(request.context_ids) for request in sampler.requests]
    assert contexts[2].endswith("\n\x01U 1\x02\n\x01U 2\x02")
    assert sampler.requests[2].context_ids.count(END) == 2


@pytest.mark.parametrize("text", ["<think>secret", "secret</think>hi", "no tags at all", "<think>a</think><think>b</think>c", ""])
def test_a_malformed_turn_is_silence_to_the_user_and_marks_the_dialogue(text: str) -> None:
    user = FakeUser("U", [1] * 4)
    good = "<think>t</think>hi"
    rollout = hold(user, says(good, text, good, good), replace(SPEAKING, thinking=True))
    assert user.heard == ["hi", "", "hi", "hi"]
    assert not rollout.well_formed


@pytest.mark.parametrize(
    ("changes", "leaves_after", "stop", "final", "turns"),
    [
        ([10, 10, 10, 10], None, StopReason.TURN_LIMIT, 80, 4),
        ([10, -10, -10, -10], None, StopReason.TURN_LIMIT, 20, 4),
        ([3, 3, 3, 3], 2, StopReason.GOODBYE, 46, 2),
    ],
)
def test_why_a_dialogue_ends(changes: list[int], leaves_after: int | None, stop: StopReason, final: int, turns: int) -> None:
    user = FakeUser("U", changes, leaves_after)
    dialogue = hold(user).dialogue
    assert (dialogue.stop_reason, dialogue.emotion_final, len(dialogue.turns)) == (stop, final, turns)
    assert len(user.heard) == turns, "the last reply is appraised too"


def test_ceiling_and_floor_end_a_dialogue_at_once_and_nobody_is_asked_to_speak_again() -> None:
    for changes, rules, stop in (
        ([10, 10, 10], replace(RULES, ceiling=60), StopReason.EMOTION_CEILING),
        ([-10, -10, -10], replace(RULES, floor=21), StopReason.EMOTION_FLOOR),
    ):
        user = FakeUser("U", changes)
        rollout = asyncio.run(run_episode(job(0), user, TAG, TokenPolicy(FakeSampler(), LetterChat(), SPEAKING), rules))
        assert rollout.dialogue.stop_reason is stop and len(rollout.dialogue.turns) == 2
        assert len(user.emotions) == 1


def test_the_speaker_hears_the_emotion_after_its_appraisal() -> None:
    user = FakeUser("U", [5, -3, 10, 0])
    dialogue = hold(user).dialogue
    assert user.emotions == [45, 42, 52]
    assert [turn.emotion for turn in dialogue.turns] == [45, 42, 52, 52]
    assert [turn.cue for turn in dialogue.turns] == [False, True, False, False]


@pytest.mark.parametrize(("call", "turns"), [("open", 0), ("appraise 1", 0), ("appraise 3", 2), ("speak 1", 1), ("speak 2", 2)])
def test_an_unreachable_user_is_a_result_with_a_reason_not_an_exception(call: str, turns: int) -> None:
    sampler = FakeSampler()
    rollout = hold(FakeUser("U", [1] * 4, breaks=call), sampler)
    dialogue = rollout.dialogue
    assert dialogue.stop_reason is StopReason.FAILED
    assert dialogue.error == f"SimulatorUnavailable: no answer to {call}"
    assert dialogue.emotion_final is None, "a failed dialogue is unscorable, not zero"
    assert len(dialogue.turns) == turns and all(turn.appraisal for turn in dialogue.turns)
    assert sampler.forgotten == ["d0"]
    assert len(rollout.completion_ids) == len(rollout.is_policy_T) == len(rollout.turn_T)


def test_a_policy_that_fills_its_context_while_losing_keeps_its_loss() -> None:
    speaking = replace(SPEAKING, max_context_tokens=60, max_reply_tokens=30)
    rollout = hold(FakeUser("U", [-7] * 4), says("x" * 20, "y" * 20, "z", "w"), speaking)
    dialogue = rollout.dialogue
    assert (dialogue.stop_reason, dialogue.error) == (StopReason.CONTEXT_FULL, None)
    assert (dialogue.emotion_final, len(dialogue.turns)) == (33, 1)
    check_arithmetic(dialogue)
    check_stops(dialogue, RULES)
    check_failed([dialogue], 0.0)
    assert len(rollout.prompt_ids) + len(rollout.completion_ids) <= 60, "nothing is sampled that would not fit"


def test_a_context_too_small_for_the_first_reply_is_nobodys_doing() -> None:
    rollout = hold(FakeUser("U", [1] * 4), says("x"), replace(SPEAKING, max_context_tokens=40, max_reply_tokens=39))
    assert (rollout.dialogue.stop_reason, rollout.dialogue.emotion_final) == (StopReason.FAILED, None)
    assert re.fullmatch(
        r"ContextFull: turn 1: the context holds \d+ of 40 tokens, and a reply may take 39: "
        r"raise policy\.max_context_tokens or lower policy\.max_reply_tokens",
        rollout.dialogue.error or "",
    )


def test_a_turns_seed_depends_on_dialogue_seed_and_turn_alone() -> None:
    assert turn_seed("d0", 1, 0) == turn_seed("d0", 1, 0)
    assert len({turn_seed(f"d{n}", seed, turn) for n in range(4) for seed in range(3) for turn in range(5)}) == 60
    assert all(0 <= turn_seed("d0", 1, turn) < 2**63 for turn in range(50)), "torch takes no more"
