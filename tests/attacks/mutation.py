"""Valid documents, mutated: as values before they are written, and as bytes after. What is drawn depends on the random numbers given only."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any


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
