"""Threads that each compute alone, and replies that are asked for before anybody waits for one."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Barrier, Event
from typing import cast

import pytest
import torch
from heard_by_hand import ByHand, heard

from rlver.components.domain.protocols import Exchange, SimulatorUnavailable, now
from rlver.components.domain.transcript import Turn
from rlver.components.replay.reappraisal import appraised_now
from rlver.components.users.heard.appraiser import Hearing
from rlver.components.users.heard.reading import Heard, Reader
from rlver.components.users.heard.threads import ReadOnce, one_each
from rlver.components.users.scripted.appraiser import Listener
from rlver.components.users.scripted.effects import DIFFICULTIES


@pytest.fixture
def three_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("three_threads")
def test_each_of_as_many_threads_computes_alone_and_others_compute_as_before() -> None:
    pool, together = one_each(), Barrier(3, timeout=60)

    def in_each() -> int:
        together.wait()  # so that none of them answers twice
        return torch.get_num_threads()

    assert [one.result() for one in [pool.submit(in_each) for _ in range(3)]] == [1, 1, 1]
    assert torch.get_num_threads() == 3
    with ThreadPoolExecutor(1) as later:
        assert later.submit(torch.get_num_threads).result() == 3, "a thread that begins afterwards"


class Counting(ByHand):
    """Also tells when it was asked to read, and when somebody waited for a reply."""

    def __init__(self, *replies: str) -> None:
        super().__init__({reply: heard() for reply in replies})
        self.told: list[str] = []
        self.wanted: dict[tuple[str, str, str], Future[Heard]] = {}

    def soon(self, reply: str, user: str, before: str = "") -> Future[Heard]:
        self.told.append(f"asked for {reply}")
        return self.wanted.setdefault((reply, user, before), Future())

    def hear(self, reply: str, user: str, before: str = "") -> Heard:
        self.told.append(f"waited for {reply}")
        return super().hear(reply, user, before)


FIRST, SECOND = "The harbour was rough.", "Nets lay on the quay."


def hearing(reader: ByHand) -> Hearing:
    return Hearing(Listener(None), DIFFICULTIES["vanilla"], cast(Reader, reader))


def test_all_dialogues_ask_before_the_first_one_waits() -> None:
    counting = Counting(FIRST, SECOND)

    async def both() -> None:
        await asyncio.gather(*(hearing(counting).appraise([Exchange("My boat sank.", reply)], 40) for reply in (FIRST, SECOND)))

    asyncio.run(both())
    assert counting.told[:2] == [f"asked for {FIRST}", f"asked for {SECOND}"]
    assert set(counting.told[2:]) == {f"waited for {FIRST}", f"waited for {SECOND}"}


def test_what_is_asked_for_is_what_will_be_heard() -> None:
    counting = Counting(FIRST, SECOND, f"{FIRST} {SECOND}")
    now(hearing(counting).appraise([Exchange("My boat sank.", FIRST), Exchange("It was old.", f"{FIRST} {SECOND}")], 40))
    assert set(counting.asked) == set(counting.wanted), "the reply whole, what of it is new, and all that the user said before"
    assert (f"{FIRST} {SECOND}", "It was old.", "My boat sank.") in counting.wanted


def test_of_a_dialogue_that_is_held_already_every_reply_is_asked_for_before_one_is_waited_for() -> None:
    counting = Counting(FIRST, SECOND)
    turns = [Turn(user="My boat sank.", assistant=reply, emotion=40) for reply in (FIRST, SECOND)]
    found, abstained = appraised_now(hearing(counting), 40, turns)
    assert len(found) == 2 and abstained is None
    assert counting.told[:2] == [f"asked for {FIRST}", f"asked for {SECOND}"]


def test_of_a_dialogue_that_ends_before_its_last_reply_the_others_are_not_wanted() -> None:
    class Gone(ByHand):
        def hear(self, reply: str, user: str, before: str = "") -> Heard:
            raise SimulatorUnavailable("gone")

    gone, turns = Counting(FIRST, SECOND), [Turn(user="My boat sank.", assistant=reply, emotion=40) for reply in (FIRST, SECOND)]
    gone.hear = Gone({}).hear  # type: ignore[method-assign]
    assert appraised_now(hearing(gone), 40, turns) == ((), "turn 1: gone")
    assert len(gone.wanted) == 2 and all(one.cancelled() for one in gone.wanted.values())


def test_a_dialogue_that_is_broken_off_wants_no_reply_any_more() -> None:
    counting = Counting(FIRST)

    async def broken_off() -> None:
        task = asyncio.create_task(hearing(counting).appraise([Exchange("My boat sank.", FIRST)], 40))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(broken_off())
    assert all(one.cancelled() for one in counting.wanted.values()) and counting.told == [f"asked for {FIRST}"]


def read_once(*readings: Callable[[], str], most: int = 9) -> tuple[ReadOnce[str], list[Callable[[], str]]]:
    """And the readings that were not done yet."""
    left = list(readings)
    return ReadOnce(lambda *texts: left.pop(0)(), one_each(), most), left


def fails() -> str:
    raise MemoryError


def test_a_reading_that_failed_is_done_again_and_others_are_kept() -> None:
    once, left = read_once(lambda: "other", fails, lambda: "good")
    assert once.wait(SECOND) == "other"
    with pytest.raises(MemoryError):
        once.wait(FIRST)
    assert once.wait(FIRST) == "good" and once.wait(FIRST) == "good" and once.wait(SECOND) == "other" and not left


def test_only_the_last_ones_are_kept() -> None:
    once, left = read_once(lambda: "a", lambda: "b", lambda: "a again", most=1)
    assert [once.wait(text) for text in "aba"] == ["a", "b", "a again"] and not left


@pytest.mark.usefixtures("three_threads")
def test_whoever_waits_for_a_reading_that_another_one_cancels_gets_it() -> None:
    held = Event()

    def waits() -> str:
        held.wait()
        return "busy"

    once, left = read_once(*[waits] * 3, lambda: "good")
    busy = [once.soon(text) for text in "abc"]  # each thread has one
    shared = once.soon(FIRST)
    with ThreadPoolExecutor(1) as another:
        waiting = another.submit(once.wait, FIRST)
        while not waiting.running():
            time.sleep(0.01)
        assert shared.cancel()
        held.set()
        assert waiting.result(timeout=60) == "good"
    assert [one.result() for one in busy] == ["busy"] * 3 and not left


def test_on_a_gpu_it_is_read_at_once_by_whoever_asks() -> None:
    once = ReadOnce(lambda *texts: threading.current_thread().name, None, 9)
    assert once.soon(FIRST).done() and once.wait(FIRST) == threading.current_thread().name


def test_now_lets_others_go_first_but_waits_for_nothing() -> None:
    async def polite(answer: int) -> int:
        await asyncio.sleep(0)
        return answer

    async def waits() -> None:
        await asyncio.get_running_loop().create_future()

    async def inside() -> None:
        assert now(polite(3)) == 3, "also inside a loop"
        with pytest.raises(RuntimeError, match="must not wait"):
            now(waits())

    assert now(polite(2)) == 2
    asyncio.run(inside())
