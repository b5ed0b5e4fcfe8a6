"""Threads that each compute alone, and replies that are asked for before anybody waits for one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from threading import Event
from typing import cast

import pytest
import torch
from heard_by_hand import ByHand, heard

from rlver.components.domain.protocols import Exchange, now
from rlver.components.domain.transcript import Turn
from rlver.components.replay.reappraisal import appraised_now
from rlver.components.users.heard.appraiser import Hearing
from rlver.components.users.heard.reading import Heard, Reader
from rlver.components.users.heard.threads import one_each
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
    pool = one_each()
    assert {pool.submit(torch.get_num_threads).result() for _ in range(12)} == {1}
    assert pool._max_workers == torch.get_num_threads() == 3
    several = torch.rand(300, 300)
    assert torch.equal(pool.submit(lambda: several @ several).result(), pool.submit(lambda: several @ several).result())


class Counting(ByHand):
    """Also tells when it was asked to read, and when somebody waited for a reply."""

    def __init__(self, *replies: str) -> None:
        super().__init__({reply: heard() for reply in replies})
        self.told: list[str] = []
        self.wanted: dict[str, Future[Heard]] = {}

    def soon(self, reply: str, user: str, before: str = "") -> Future[Heard]:
        self.told.append(f"asked for {reply}")
        return self.wanted.setdefault(reply, Future())

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


def test_what_is_said_again_is_asked_for_as_it_will_be_heard() -> None:
    counting = Counting(FIRST, SECOND, f"{FIRST} {SECOND}")
    now(hearing(counting).appraise([Exchange("My boat sank.", FIRST), Exchange("It was old.", f"{FIRST} {SECOND}")], 40))
    asked = {told.removeprefix("asked for ") for told in counting.told if told.startswith("asked")}
    assert {reply.strip() for reply, _, _ in counting.asked} == {reply.strip() for reply in asked}


def test_of_a_dialogue_that_is_held_already_every_reply_is_asked_for_before_one_is_waited_for() -> None:
    counting = Counting(FIRST, SECOND)
    turns = [Turn(user="My boat sank.", assistant=reply, emotion=40) for reply in (FIRST, SECOND)]
    found, abstained = appraised_now(hearing(counting), 40, turns)
    assert len(found) == 2 and abstained is None
    assert counting.told[:2] == [f"asked for {FIRST}", f"asked for {SECOND}"]


def test_a_dialogue_that_is_broken_off_wants_no_reply_any_more() -> None:
    counting = Counting(FIRST)

    async def broken_off() -> None:
        task = asyncio.create_task(hearing(counting).appraise([Exchange("My boat sank.", FIRST)], 40))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(broken_off())
    assert counting.wanted[FIRST].cancelled() and counting.told == [f"asked for {FIRST}"]


class Once(Reader):
    """A reader whose next readings do what stands in `readings`; it needs no weights."""

    def __init__(self, *readings: Callable[[], Heard]) -> None:
        self.readings = list(readings)
        self.remember(one_each())

    def _hear(self, reply: str, user: str, before: str) -> Heard:
        return self.readings.pop(0)()


def fails() -> Heard:
    raise MemoryError


def test_a_reading_that_failed_is_done_again_and_one_that_did_not_is_kept() -> None:
    good = heard()
    reader = Once(fails, lambda: good)
    with pytest.raises(MemoryError):
        reader.hear(FIRST, "My boat sank.")
    assert reader.hear(FIRST, "My boat sank.") is reader.soon(FIRST, "My boat sank.", "").result() is good
    assert not reader.readings


@pytest.mark.usefixtures("three_threads")
def test_a_reading_that_was_cancelled_is_done_when_it_is_wanted_again() -> None:
    held, good = Event(), heard()

    def waits() -> Heard:
        held.wait()
        return good

    reader = Once(*[waits] * 3, lambda: good)
    busy = [reader.soon(reply, "My boat sank.") for reply in "abc"]  # each thread has one
    assert reader.soon(FIRST, "My boat sank.").cancel()
    held.set()
    assert reader.hear(FIRST, "My boat sank.") is good and all(one.result() is good for one in busy)


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
