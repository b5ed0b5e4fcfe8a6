"""The fuzzer itself: whom it blames for being slow, and that it makes an input of every document."""

from __future__ import annotations

import weakref
from contextlib import suppress
from time import process_time
from typing import Any

import pytest
from fuzzing import TRIES, fuzz
from hypothesis import strategies as st

LIMIT_S = 0.05
INPUTS = st.sampled_from([b"quick", b"slow"])


def work(seconds: float) -> None:
    until = process_time() + seconds
    while process_time() < until:
        pass


def is_blamed(read: Any) -> None:
    with pytest.raises(AssertionError, match=r"took more than N.N s, N times[^\n]*\n  4 bytes: b'slow'$"):
        fuzz(INPUTS, read, 2, most_cpu_s=LIMIT_S, some_refused=False)


def test_who_is_slow_each_time_is_blamed() -> None:
    tried = []

    def read(content: bytes) -> None:
        tried.append(content)
        if content == b"slow":
            work(3 * LIMIT_S)

    is_blamed(read)
    assert tried.count(b"slow") % TRIES == 0


def test_who_is_slow_but_for_the_last_try_is_not_blamed() -> None:
    """As with what the first call imports."""
    tried = []

    def read(content: bytes) -> None:
        tried.append(content)
        if tried.count(content) < TRIES:
            work(3 * LIMIT_S)

    outcome = fuzz(INPUTS, read, 2, most_cpu_s=LIMIT_S, some_refused=False)
    assert outcome.read == outcome.tried and tried.count(b"slow") >= TRIES
    assert outcome.slowest_s < LIMIT_S


def test_a_fault_of_the_last_try_is_told() -> None:
    tried = []

    def read(content: bytes) -> None:
        tried.append(content)
        if content == b"slow" and tried.count(content) == 1:
            work(3 * LIMIT_S)
        elif content == b"slow":
            raise KeyError("a fault")

    with pytest.raises(AssertionError, match=r"^- KeyError: .*a fault.*, from "):
        fuzz(INPUTS, read, 2, most_cpu_s=LIMIT_S, some_refused=False)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_alarm_that_is_lost_in_a_callback_is_counted_and_rings_again() -> None:
    went_on = []

    class Thing:
        pass

    def read(content: bytes) -> None:
        if content == b"slow":
            thing = Thing()
            watched = weakref.ref(thing, lambda _: work(10))  # Python drops what is raised in it
            del thing
            went_on.append(watched)
            work(10)
            went_on.clear()

    begun_s = process_time()
    is_blamed(read)
    assert went_on, "the work after the callback was not stopped"
    assert process_time() - begun_s < 9


def test_a_reader_that_catches_everything_is_blamed() -> None:
    def read(content: bytes) -> None:
        with suppress(BaseException):
            work(3 * LIMIT_S if content == b"slow" else 0)

    is_blamed(read)
