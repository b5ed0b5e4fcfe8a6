"""A small fuzzer for what reads foreign bytes: valid documents, mutated, and what a reader may do with each.

A reader may return, or raise an error that `rlver` shows as one line in words of this project: ValueError, OSError or RuntimeError, but
not one of Python's or a library's own (a RecursionError is a RuntimeError, a UnicodeEncodeError a ValueError; neither names a file). It has
one second of CPU time for each input, of which it may need more twice, and 200 MiB for all of them together.

Inputs are drawn by number, each from a seed of its own, and are the same in every run. Nothing is shrunk: of every kind of fault the shortest input is shown, so that one run tells all that falls.
"""

from __future__ import annotations

import gzip
import json
import re
import signal
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from time import process_time
from types import FrameType
from typing import Any

import pytest
from pydantic import ValidationError

from rlver.components.domain.printable import one_line

MOST_CPU_S = 1.0
TRIES = 3
MOST_GROWTH_MIB = 200
FORESEEN = (ValueError, OSError, RuntimeError)  # what flows/cli.py shows as one line
UNWORDED = (UnicodeError, RecursionError, NotImplementedError, json.JSONDecodeError, ValidationError)

times = pytest.mark.parametrize("times", [200, pytest.param(10_000, marks=pytest.mark.slow)])


class Raw(str):
    """Stands in a document for JSON that `json.dumps` cannot write; see RAWS."""


_LONG = 60_000  # characters: what a backtracking pattern needs hours for, and a linear one no time
_TEXTS = (
    "", " ", "\x00", "\ud800", "\udfff\ud83d", "a\ud800" * 200, "\u202egnp.exe", "\x1b]0;owned\x07\x1b[2J", "\u2028\u2029\x85\x0b", "😀" * 500,
    "../../../../etc/passwd", "/dev/zero", "..", "-rf", "a/b\\c:d", "~root", "CON", "x" * 300, "%s%n{0}{name}{0.__class__}", "null", "NaN", "=1+1",
    "x" * _LONG, " " * _LONG, "\n" * _LONG, "*" * _LONG, "#" * _LONG, "：" * _LONG, "情绪" * _LONG, "emotion高" * 9_000, "- " * _LONG, "a: " * _LONG,
    "```" + " " * _LONG, "<think>" * 9_000, "[" * _LONG, "\\" * _LONG, "隐藏主题" * 9_000 + "：", "年龄" + "*" * _LONG, "年龄：" + "9" * 6_000,
    "<script>alert(1)</script>", "&#0;" * 50, "I " * _LONG, "，" * _LONG, "\t" * _LONG, "\r\n" * _LONG, "A" * 40 + "!" * _LONG,
)  # fmt: skip
RAWS: tuple[str, ...] = (
    "NaN", "Infinity", "-Infinity", "1e999", "-1e999", "-0", "1e-999", "9" * 300, "9" * 5_000, "-1", "0", "1.0", "0.5", "true", "false", "null",
    str(2**31), str(2**63), str(2**64), "1" + "0" * 309, "[]", "{}", "[[]]", "[null]", '[{"a": null}]', '{"a": {"a": 1}}', '{"": ""}', '"\\ud800"',
    '"\\u0000"', '{"\\ud800": 1}', '{"\\u0000": 1}', '{"a": 1, "a": 2}', "[" * 90 + "]" * 90, "[" * 900 + "]" * 900, "[" * 50_000 + "]" * 50_000,
    '{"a":' * 900 + "1" + "}" * 900, '{"a":' * 50_000 + "1" + "}" * 50_000, "[" + "1," * 9_000 + "1]", "[" * _LONG, "tru", "'a'", "0x1F", "1_000", "+1",
    *(json.dumps(text) for text in _TEXTS),
    *(json.dumps(text, ensure_ascii=False) for text in _TEXTS),
)  # fmt: skip
_BYTES = (
    *(raw.encode("utf-8", "surrogatepass") for raw in RAWS),
    b"\xef\xbb\xbf", b"\xff\xfe", b"\x00", b"\x00" * 5_000, b"\xff" * 50, b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\n", b"\n\n\n", b"\r", b"\x1a",
    b"\x1f\x8b", b"\x0c", b"\xe2\x80\xa8", b'"', b"{", b"}", b"]", b",", b":", b"\\", b"---\n", b"\t", b"# ", b"=", b"'", b"export ", b"\n{}\n", b"\nnull\n", b"\n[]\n",
)  # fmt: skip
_NAMES = (
    "", " ", "\ud800", "\x00", "../x", "a.b", "x" * 9_000, "role", "messages", "history", "turns", "original", "__class__", "self", "e\u202e", "0",
)  # fmt: skip
_SPAN = 2**16
_LONGEST = 2**20  # bytes: several changes could make one text 40 times 60,000 characters


class _Twin(str):
    """A key that stands beside its equal."""

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other


Inputs = Callable[[Random], bytes]
Change = tuple[str, int, int]  # its name, and two numbers below _SPAN: the place, and whatever else it needs


def mutants(documents: Sequence[Any], write: Callable[[Any], bytes], raws: Sequence[str] = ()) -> Inputs:
    """Documents as they are, and with up to four changes. A document is JSON's values, which `write` makes bytes of, or bytes.

    `raws` are texts that are put in the place of values and into the bytes, beside those for every format.
    """
    kept = [document if isinstance(document, bytes) else json.dumps(document) for document in documents]
    how = (*["alter"] * 12, *_IN_VALUES, *_IN_VALUES, *_IN_BYTES)  # small changes pass further than coarse ones
    written = (*raws, *RAWS)

    def number(random: Random) -> int:
        return random.randrange(_SPAN) if random.random() < 0.9 else random.choice((0, 1, _SPAN - 1))  # ends are worth more than middles

    def made(random: Random) -> bytes:
        document = random.choice(kept)
        changes = [(random.choice(how), number(random), number(random)) for _ in range(random.choice((0, 1, 1, 1, 2, 2, 2, 3, 4)))]
        return changed(document, changes, write, written)

    return made


def changed(document: str | bytes, changes: Sequence[Change], write: Callable[[Any], bytes], raws: Sequence[str] = RAWS) -> bytes:
    """Bytes of a document, which is JSON or bytes, after these changes: first those of its values, then those of the bytes."""
    if isinstance(document, bytes):
        content = document
    else:
        value = json.loads(document)
        for name, place, other in changes:
            if name in _IN_VALUES and (places := list(_places(value))):
                _IN_VALUES[name](places, *places[place * len(places) // _SPAN], other, raws)
        content = write(value)
    for name, place, other in changes:
        if name in _IN_BYTES:
            content = _IN_BYTES[name](content, place * len(content) // _SPAN, other, raws)
    return content[:_LONGEST]


def as_json(value: Any) -> bytes:
    """`value` with what stands for raw JSON written out."""
    return _dumped(value)


def as_lines(rows: Any) -> bytes:
    """JSON lines."""
    return b"".join(_dumped(row) + b"\n" for row in rows) if isinstance(rows, list) else _dumped(rows)


def _dumped(value: Any) -> bytes:
    raws: list[str] = []

    def mark(part: Any) -> Any:
        if isinstance(part, Raw):
            raws.append(str(part))
            return f"@raw{len(raws) - 1}@"
        if isinstance(part, dict):
            return {key: mark(one) for key, one in part.items()}
        return [mark(one) for one in part] if isinstance(part, list) else part

    text = json.dumps(mark(value), ensure_ascii=False)
    for number, raw in enumerate(raws):
        text = text.replace(f'"@raw{number}@"', raw)
    return text.encode("utf-8", "surrogatepass")


Place = tuple[Any, Any]  # a container, and the key or index in it


def _places(value: Any) -> Iterator[Place]:
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in list(parts):
        yield value, key
        yield from _places(part)


def _replace(_: list[Place], inside: Any, key: Any, other: int, raws: Sequence[str]) -> None:
    inside[key] = Raw(raws[other * len(raws) // _SPAN])


def _alter(_: list[Place], inside: Any, key: Any, other: int, __: Sequence[str]) -> None:
    """Another value of the same type, which checks of types let through."""
    part = inside[key]
    if isinstance(part, str):
        text, at = _TEXTS[other * len(_TEXTS) // _SPAN], other % (len(part) + 1)
        inside[key] = (text, part[:at] + text + part[at:], part[:at])[other % 3]
    elif isinstance(part, bool):
        inside[key] = not part
    elif isinstance(part, int | float):
        inside[key] = (part + 1, -part, 0, part * 10, 2**31, 2**53, 10**25)[other % 7]
    elif isinstance(part, list):
        inside[key] = (part[::-1], part[1:], part[:-1], [])[other % 4]


def _swap(places: list[Place], inside: Any, key: Any, other: int, _: Sequence[str]) -> None:
    container, name = places[other * len(places) // _SPAN]
    if name in container if isinstance(container, dict) else name < len(container):
        inside[key] = _copied(container[name])


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(part) for key, part in value.items()}
    return [_copied(part) for part in value] if isinstance(value, list) else value


def _drop(_: list[Place], inside: Any, key: Any, __: int, ___: Sequence[str]) -> None:
    del inside[key]


def _name(_: list[Place], inside: Any, key: Any, other: int, __: Sequence[str]) -> None:
    name = _NAMES[other * len(_NAMES) // _SPAN]
    if isinstance(inside, dict):
        inside[name] = inside.pop(key)
    else:
        inside[key] = {name: inside[key]}


def _add(_: list[Place], inside: Any, key: Any, other: int, raws: Sequence[str]) -> None:
    raw = Raw(raws[other * len(raws) // _SPAN])
    if isinstance(inside, dict):
        inside[_NAMES[other % len(_NAMES)]] = raw
    else:
        inside.insert(key, raw)


def _twice(_: list[Place], inside: Any, key: Any, other: int, raws: Sequence[str]) -> None:
    if isinstance(inside, dict):
        inside[_Twin(key)] = Raw(raws[other * len(raws) // _SPAN])
    else:
        inside[key:key] = [_copied(inside[key]) for _ in range(other % 40)]


def _wrap(_: list[Place], inside: Any, key: Any, other: int, __: Sequence[str]) -> None:
    part = inside[key]
    inside[key] = ([part], {"a": part}, str(part), [part, part])[other % 4]


_IN_VALUES = {
    "alter": _alter,
    "replace": _replace,
    "swap": _swap,
    "drop": _drop,
    "name": _name,
    "add": _add,
    "twice": _twice,
    "wrap": _wrap,
}


def _flip(content: bytes, at: int, other: int, _: Sequence[str]) -> bytes:
    return content[:at] + bytes(byte ^ (1 << other % 8) for byte in content[at : at + 1]) + content[at + 1 :]


def _insert(content: bytes, at: int, other: int, raws: Sequence[str]) -> bytes:
    choices = len(raws) + len(_BYTES)
    chosen = other * choices // _SPAN
    put = raws[chosen].encode("utf-8", "surrogatepass") if chosen < len(raws) else _BYTES[chosen - len(raws)]
    return content[:at] + put + content[at:]


def _repeat(content: bytes, at: int, other: int, _: Sequence[str]) -> bytes:
    part = content[at : at + 1 + other % 50]
    return content[:at] + part * min(1 + other % 500, 1 + _LONG // (1 + len(part))) + content[at:]


def _gzip(content: bytes, at: int, other: int, _: Sequence[str]) -> bytes:
    packed = gzip.compress(content, 1, mtime=0)
    if other % 3 == 0:
        return packed
    return packed[: 2 + at % len(packed)] if other % 3 == 1 else _flip(packed, at % len(packed), other, ())


_IN_BYTES: dict[str, Callable[[bytes, int, int, Sequence[str]], bytes]] = {
    "flip": _flip,
    "insert": _insert,
    "repeat": _repeat,
    "cut": lambda content, at, _, __: content[:at],
    "cut out": lambda content, at, other, _: content[:at] + content[at + other % 200 :],
    "mark of byte order": lambda content, _, __, ___: b"\xef\xbb\xbf" + content,
    "line ends": lambda content, _, other, __: content.replace(b"\n", (b"\r\n", b"\r", b"\n\n", b"")[other % 4]),
    "wide": lambda content, _, other, __: content.decode("utf-8", "replace").encode(("utf-16", "utf-32", "utf-7", "gb18030")[other % 4], "replace"),
    "gzip": _gzip,
}  # fmt: skip


@dataclass
class Outcome:
    """How many inputs there were, how many could be read, the slowest, and of each kind of fault the shortest input."""

    tried: int = 0
    read: int = 0
    slowest_s: float = 0.0
    grown_mib: int = 0
    faults: dict[str, bytes] = field(default_factory=dict)

    def blame(self, fault: str, content: bytes) -> None:
        fault = re.sub(r"0x[0-9a-f]+|\d+", "N", fault)
        if fault not in self.faults or len(content) < len(self.faults[fault]):
            self.faults[fault] = content


def fuzz(
    inputs: Inputs,
    read: Callable[[bytes], object],
    times: int,
    named: str = "",
    most_cpu_s: float = MOST_CPU_S,
    some_refused: bool = True,
) -> Outcome:
    """Give `read` so many inputs; each error must hold `named`, the name of the file. Fails with every kind of fault there was."""
    outcome = Outcome()
    memory = Memory()

    begun_s = process_time()
    for number in range(times):
        content = inputs(Random(number))  # the same in every run, whatever was tried before it
        outcome.tried += 1
        _try(read, content, named, most_cpu_s, outcome)
        if (grown := memory.grown_mib()) > MOST_GROWTH_MIB:
            outcome.blame(f"memory grew by {grown} MiB", content)
            memory.start_again()
        outcome.grown_mib = max(outcome.grown_mib, grown)
    print(
        f"{outcome.tried} inputs in {process_time() - begun_s:.1f} s of CPU time, {outcome.read} read; slowest {outcome.slowest_s:.3f} s; "
        f"memory grew by {outcome.grown_mib} MiB"
    )
    assert not outcome.faults, "\n".join(
        f"- {fault}\n  {len(content)} bytes: {content[:300]!r}{'…' * (len(content) > 300)}"
        for fault, content in sorted(outcome.faults.items())
    )
    assert outcome.read > 0 and (outcome.read < outcome.tried or not some_refused), "some documents must be readable and some not"
    return outcome


class _TooSlow(BaseException):
    """Passes through every `except Exception` of the reader."""


@dataclass(frozen=True)
class _Attempt:
    taken_s: float
    read: bool
    slow: str | None  # where the work was stopped, as far as it is known; None: it was in time
    fault: str | None  # of another kind


def _try(read: Callable[[bytes], object], content: bytes, named: str, most_cpu_s: float, outcome: Outcome) -> None:
    """An input that is too slow is tried again: the first time may pay for imports, and a busy machine makes everything slow. Work that
    grows too fast with its input is too slow each time."""
    for _ in range(TRIES):
        attempt = _once(read, content, named, most_cpu_s)
        if attempt.slow is None:
            break
    else:
        outcome.blame(f"took more than {most_cpu_s:g} s, {TRIES} times{attempt.slow}", content)
    if attempt.fault:
        outcome.blame(attempt.fault, content)
    outcome.read += attempt.read
    outcome.slowest_s = max(outcome.slowest_s, attempt.taken_s)


def _once(read: Callable[[bytes], object], content: bytes, named: str, most_cpu_s: float) -> _Attempt:
    clock = _Clock(most_cpu_s)
    done, slow, fault = False, None, None
    begun_s = process_time()
    try:
        with clock.running():
            read(content)
        done = True
    except _TooSlow as error:
        slow = f", in {_where(error)}"
    except Exception as error:
        if fault := _fault_of(error, named):
            fault = f"{fault}, from {_where(error)}"
    taken_s = process_time() - begun_s
    if slow is None and (clock.rang or taken_s > most_cpu_s):
        slow = ""
    return _Attempt(taken_s, done, slow, fault)


def _fault_of(error: Exception, named: str) -> str | None:
    """Why this error is none that may be shown; None for a good one."""
    message = str(error)
    if not isinstance(error, FORESEEN) or isinstance(error, UNWORDED):
        return f"{type(error).__name__}: {one_line(message)[:120]!a}"
    if not message.strip():
        return f"{type(error).__name__} without a message"
    if named not in message:
        return f"the message does not name {named}: {type(error).__name__}: {one_line(message)[:120]!a}"
    return None


def _where(error: BaseException) -> str:
    """The last place of the product's own code that the error came through."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/tests/" not in frame.filename]
    ours = [frame for frame in frames if "site-packages" not in frame.filename and "/lib/python" not in frame.filename] or frames
    return f"{Path(ours[-1].filename).name}:{ours[-1].lineno} {ours[-1].name}" if ours else "the test"


class _Clock:
    """Raises _TooSlow in the middle of the work: whoever backtracks for hours is stopped too.

    Python drops an exception in a destructor or in a callback of weakref, and a reader may catch all: so it is noted that the time was up,
    and the work is stopped again as often as it goes on for as long. An import is left alone: half a module stays broken for all that
    come after.
    """

    def __init__(self, limit_s: float) -> None:
        self.limit_s, self.rang = limit_s, False

    @contextmanager
    def running(self) -> Iterator[None]:
        before = signal.signal(signal.SIGPROF, self._ring)
        signal.setitimer(signal.ITIMER_PROF, self.limit_s, self.limit_s)
        try:
            yield
        finally:
            for _ in range(2):  # it may ring at the first
                with suppress(_TooSlow):
                    signal.setitimer(signal.ITIMER_PROF, 0)
            signal.signal(signal.SIGPROF, before)

    def _ring(self, _: int, frame: FrameType | None) -> None:
        self.rang = True
        while frame:
            if frame.f_code.co_filename.startswith("<frozen importlib"):
                return
            frame = frame.f_back
        raise _TooSlow


class Memory:
    """The highest resident memory since the start against that at the start, as Linux counts it."""

    def __init__(self) -> None:
        self.start_again()

    def start_again(self) -> None:
        Path("/proc/self/clear_refs").write_text("5")  # forgets the highest so far
        self._at_start_kib = self._highest_kib()

    def grown_mib(self) -> int:
        return (self._highest_kib() - self._at_start_kib) // 1024

    @staticmethod
    def _highest_kib() -> int:
        with open("/proc/self/status", encoding="ascii") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("VmHWM:"))
