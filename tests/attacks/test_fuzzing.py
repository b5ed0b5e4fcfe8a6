"""The fuzzer itself: whom it blames for being slow, and that it makes an input of every document."""

from __future__ import annotations

import itertools
import json
import weakref
from contextlib import suppress
from pathlib import Path
from random import Random
from time import process_time
from typing import Any

import pytest
from fuzzing import TRIES, fuzz
from mutation import _IN_BYTES, _IN_VALUES, _SPAN, RAWS, as_json, as_lines, changed, mutants

LIMIT_S = 0.05


def inputs(random: Random) -> bytes:
    return random.choice((b"quick", b"slow"))


def work(seconds: float) -> None:
    until = process_time() + seconds
    while process_time() < until:
        pass


def is_blamed(read: Any) -> None:
    with pytest.raises(AssertionError, match=r"took more than N.N s, N times[^\n]*\n  4 bytes: b'slow'$"):
        fuzz(inputs, read, 4, most_cpu_s=LIMIT_S, some_refused=False)


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

    outcome = fuzz(inputs, read, 4, most_cpu_s=LIMIT_S, some_refused=False)
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
        fuzz(inputs, read, 4, most_cpu_s=LIMIT_S, some_refused=False)


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


def test_an_import_is_not_stopped_halfway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is half imported would stay so, and everybody after it would be blamed."""
    until = f"import time\nend = time.process_time() + {4 * LIMIT_S}\nwhile time.process_time() < end: pass\n"
    (tmp_path / "slow_to_import.py").write_text(f"{until}whole = True\n")
    monkeypatch.syspath_prepend(tmp_path)

    def read(_: bytes) -> None:
        import slow_to_import  # type: ignore[import-not-found]

        assert slow_to_import.whole

    outcome = fuzz(inputs, read, 4, most_cpu_s=LIMIT_S, some_refused=False)
    assert outcome.read == outcome.tried


EMPTY = ["{}", "[]", '""', "null", "0", '{"": ""}', '{"a": []}', '{"a": {}}', "[[]]", "[{}]", '[[], {"a": [null]}]', b"", b"x"]
NAMES = (*_IN_VALUES, *_IN_BYTES)
ENDS = (0, 1, _SPAN // 2, _SPAN - 1)


@pytest.mark.parametrize("document", EMPTY, ids=repr)
def test_every_two_changes_of_next_to_nothing_give_bytes(document: str | bytes) -> None:
    """The first may leave nothing for the second."""
    raws = ("null", "[]", "{}", '"a"')
    for one, other in itertools.product(itertools.product(NAMES, ENDS[::3], ENDS), itertools.product(NAMES, ENDS[::3], ENDS[::3])):
        if "insert" not in (one[0], other[0]):  # which has long texts of its own
            assert isinstance(changed(document, [one, other], as_json, raws), bytes)


@pytest.mark.parametrize("name", NAMES)
def test_every_change_changes_something(name: str) -> None:
    document = json.dumps([{"a": "some words", "b": [1, 2, {"c": 3}]}, {"a": "other words", "b": [4, True, {"c": 0.5}]}])
    at = range(0, _SPAN, 4_999)
    plain = as_lines(json.loads(document))
    assert any(changed(document, [(name, place, other)], as_lines) != plain for place in at for other in at[::3])


def test_an_input_is_the_same_in_every_run_and_some_are_the_document_itself() -> None:
    made = mutants([{"a": [1, "b"]}], as_json)
    inputs = [made(Random(number)) for number in range(300)]
    assert inputs == [made(Random(number)) for number in range(300)]
    assert 10 < inputs.count(b'{"a": [1, "b"]}') < 150 and len(set(inputs)) > 100
    assert len(RAWS) > 100
