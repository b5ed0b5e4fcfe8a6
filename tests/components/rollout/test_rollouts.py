"""Many dialogues at once: identity, order, bounded concurrency, failures counted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from fakes import RULES, SPEAKING, FakeSampler, FakeSimulator, FakeUser, LetterChat, a_dialogue, job

from rlver.components.domain.persona import Persona
from rlver.components.domain.transcript import StopReason
from rlver.components.policy.token_policy import TokenPolicy
from rlver.components.rollout.episode import Job, Rollout, TooManyFailures, check_failed, run_episodes


def hold(
    jobs: list[Job],
    user_of: Callable[[Persona, int], FakeUser] = lambda persona, seed: FakeUser(persona.persona_id, [1] * 4),
    sampler: FakeSampler | None = None,
    concurrency: int = 8,
    on_finished: Callable[[Rollout], None] = lambda rollout: None,
) -> tuple[list[Rollout], FakeSimulator]:
    simulator = FakeSimulator(user_of)
    policy = TokenPolicy(sampler or FakeSampler(), LetterChat(), SPEAKING)
    coroutine = run_episodes(jobs, simulator, policy, RULES, concurrency, on_finished)
    return asyncio.run(coroutine), simulator


def test_a_dialogue_keeps_its_own_user_when_others_end_early() -> None:
    def user_of(persona: Persona, seed: int) -> FakeUser:
        return FakeUser(persona.persona_id, [seed] * 4, leaves_after=1 if seed % 2 else None)

    rollouts, _ = hold([job(number, seed=number) for number in range(8)], user_of)
    for number, rollout in enumerate(rollouts):
        persona_id = job(number).persona.persona_id
        turns = rollout.dialogue.turns
        assert len(turns) == (1 if number % 2 else 4)
        assert [turn.user for turn in turns] == [f"{persona_id} {turn}" for turn in range(len(turns))]
        assert [turn.assistant for turn in turns] == [f"reply {turn} to d{number}" for turn in range(len(turns))]
        assert rollout.dialogue.emotion_final == min(100, 40 + number * len(turns))


def test_results_come_in_the_order_of_the_jobs_whoever_ends_first() -> None:
    ended: list[str] = []
    sampler = FakeSampler(waits={"d0": 30, "d1": 10})
    rollouts, _ = hold([job(n) for n in range(4)], sampler=sampler, on_finished=lambda r: ended.append(r.dialogue.dialogue_id))
    assert [rollout.dialogue.dialogue_id for rollout in rollouts] == ["d0", "d1", "d2", "d3"]
    assert ended[-2:] == ["d1", "d0"]


def test_two_jobs_may_not_share_an_id() -> None:
    with pytest.raises(ValueError, match="'d1' appears more than once"):
        hold([job(1), job(2), job(1)])


def test_the_same_persona_may_be_in_several_dialogues_each_with_a_user_of_its_own() -> None:
    one = job(3)
    rollouts, simulator = hold([Job("a", one.persona, 1), Job("b", one.persona, 1)])
    assert len(simulator.sessions) == 2 and simulator.sessions[0] is not simulator.sessions[1]
    assert [user.heard[0] for user in simulator.sessions] == ["reply 0 to a", "reply 0 to b"]
    assert len(rollouts) == 2


@pytest.mark.parametrize("concurrency", [1, 3, 20])
def test_no_more_dialogues_are_open_than_allowed(concurrency: int) -> None:
    sampler = FakeSampler()
    rollouts, _ = hold([job(n) for n in range(12)], sampler=sampler, concurrency=concurrency)
    assert sampler.most_open == min(concurrency, 12)
    assert sorted(sampler.forgotten) == sorted(f"d{n}" for n in range(12))
    assert len(rollouts) == 12


def test_failed_dialogues_come_back_among_the_others() -> None:
    def user_of(persona: Persona, seed: int) -> FakeUser:
        return FakeUser(persona.persona_id, [1] * 4, breaks="appraise 2" if seed == 2 else None)

    rollouts, _ = hold([job(n, seed=n) for n in range(4)], user_of)
    assert [rollout.dialogue.error for rollout in rollouts] == [None, None, "SimulatorUnavailable: no answer to appraise 2", None]
    check_failed([rollout.dialogue for rollout in rollouts], max_failure_rate=0.25)
    with pytest.raises(TooManyFailures, match=r"1 of 4 dialogues failed \(allowed: 20%\): 1 x SimulatorUnavailable: no answer"):
        check_failed([rollout.dialogue for rollout in rollouts], max_failure_rate=0.2)


def test_too_many_failures_are_told_with_the_commonest_reasons() -> None:
    def failed(reason: str) -> object:
        return a_dialogue("d", [1]).model_copy(update={"error": reason, "emotion_final": None, "stop_reason": StopReason.FAILED})

    with pytest.raises(TooManyFailures, match=r"3 of 3 .* 2 x b; 1 x a"):
        check_failed([failed("a"), failed("b"), failed("b")], 0.5)  # type: ignore[list-item]
    check_failed([], 0.0)


def test_an_error_of_the_sampler_is_raised_as_itself_so_that_it_can_be_told_in_one_line() -> None:
    class Broken(FakeSampler):
        async def sample(self, request: object) -> object:  # type: ignore[override]
            raise ValueError("out of rows")

    with pytest.raises(ValueError, match=r"^out of rows$"):
        hold([job(n) for n in range(3)], sampler=Broken())
