"""GGUF files of others, mutated: the check of the header before any library reads the file, and the whole way to a folder and a reply."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from fuzzing import fuzz, times
from gguf_files import small_llama, write_gguf
from mutation import Inputs, as_json, mutants

from rlver.components.policy.chat import ChatFormat
from rlver.components.weights import gguf_header
from rlver.components.weights.gguf_header import MAGIC, read_header
from rlver.components.weights.sources.gguf import converted

KINDS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
U32, TEXT, LIST, F32, Q8_0 = 4, 8, 9, 0, 8
NUMBERS = 4 * 64 + 8 * 34 + 1_000
DOCUMENT = {
    "version": 3,
    "counts": [3, 5],
    "keys": [
        ["general.architecture", TEXT, "llama"], ["general.alignment", U32, 32], ["llama.rope.freq_base", 6, 10_000.0],
        ["tokenizer.ggml.tokens", LIST, [TEXT, 3, ["a", "b", "é"]]], ["tokenizer.ggml.scores", LIST, [6, 2, [0.5, -1.0]]],
    ],
    "tensors": [["a.weight", [8, 8], F32, 0], ["blk.0.b.weight", [32, 8], Q8_0, 256], ["c.bias", [2], F32, 544]],
}  # fmt: skip
RAWS = (
    *(str(number) for number in (4, 8, 9, 16, 31, 33, 64, 255, 2**15, 2**16, 2**22, 2**31 - 1, 2**32, 2**63, 2**64 - 1)), '"general.alignment"',
    "[9, 1, [9, 1, []]]", "[8, 99999999, []]", "[4, 4194305, []]", "[0, 0, []]", '[8, 1, ["\\ud800"]]', '"' + "k" * 66_000 + '"', "[1, 1, 1, 1, 1]",
    "[0]", "[4294967296, 4294967296]", "[18446744073709551615, 2]", '"general.architecture"', '"llama.block_count"',
)  # fmt: skip
some_times = pytest.mark.parametrize("times", [20, pytest.param(400, marks=pytest.mark.slow)])  # a conversion takes 100 ms


def as_gguf(value: Any) -> bytes:
    """The header of a GGUF file, whatever has become of its parts, with enough numbers behind it."""
    if not isinstance(value, dict):
        return as_json(value)
    keys, tensors, counts = (value.get(name) for name in ("keys", "tensors", "counts"))
    count = counts if isinstance(counts, list) else [counts]
    content = MAGIC + _number("I", value.get("version")) + b"".join(_number("Q", one) for one in count)
    content += b"".join(map(_key, keys if isinstance(keys, list) else [keys]))
    content += b"".join(map(_tensor, tensors if isinstance(tensors, list) else [tensors]))
    return content + b"\0" * (-len(content) % 32) + b"\1" * NUMBERS


def _number(kind: str, value: Any) -> bytes:
    """Any value as a number of that size: what is too large loses its beginning."""
    number = value if isinstance(value, int | float) else int(str(value)) if str(value).isdecimal() and len(str(value)) < 30 else 0
    if kind in "fd":
        return struct.pack(f"<{kind}", float(number) if abs(number) < 1e30 else float("nan"))
    size = struct.calcsize(kind)
    return (int(number) % 2 ** (8 * size)).to_bytes(size, "little") if number == number and abs(number) < 1e300 else b"\xff" * size


def _text(value: Any) -> bytes:
    content = (value if isinstance(value, str) else as_json(value).decode("utf-8", "surrogatepass")).encode("utf-8", "surrogatepass")
    return len(content).to_bytes(8, "little") + content


def _value(kind: Any, value: Any) -> bytes:
    if kind == LIST and isinstance(value, list) and len(value) == 3:
        inner, count, elements = value
        return (
            _number("I", inner)
            + _number("Q", count)
            + b"".join(_value(inner, one) for one in (elements if isinstance(elements, list) else ()))
        )
    return _number(KINDS[kind], value) if isinstance(kind, int) and kind in KINDS else _text(value)


def _key(row: Any) -> bytes:
    name, kind, value = row if isinstance(row, list) and len(row) == 3 else (row, TEXT, row)
    return _text(name) + _number("I", kind) + _value(kind, value)


def _tensor(row: Any) -> bytes:
    name, sides, kind, offset = row if isinstance(row, list) and len(row) == 4 else (row, [1], F32, 0)
    sides = sides if isinstance(sides, list) else [sides]
    return (
        _text(name) + _number("I", len(sides)) + b"".join(_number("Q", side) for side in sides) + _number("I", kind) + _number("Q", offset)
    )


def refused(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"^one\.gguf: cannot be read as a model: [^\n]+$") as fault:
        read_header(path)
    return str(fault.value)


def changed(*place: Any, to: Any) -> bytes:
    """The document with another value at a place in it."""
    document = json.loads(json.dumps(DOCUMENT))
    *outer, last = place
    inside = document
    for key in outer:
        inside = inside[key]
    inside[last] = to
    return as_gguf(document)


def test_a_header_is_read_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "one.gguf").write_bytes(as_gguf(DOCUMENT))
    header = read_header(tmp_path / "one.gguf")
    assert header.values == {"general.architecture": "llama", "general.alignment": 32, "llama.rope.freq_base": 10_000.0}
    assert header.lists == {"tokenizer.ggml.tokens": 3, "tokenizer.ggml.scores": 2}
    assert [(tensor.name, tensor.sides, tensor.elements) for tensor in header.tensors] == [
        ("a.weight", (8, 8), 64), ("blk.0.b.weight", (32, 8), 256), ("c.bias", (2,), 2),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"GGUF", "it ends within its version"),
        (b"GGML" + as_gguf(DOCUMENT)[4:], "does not begin with GGUF"),
        (changed("version", to=1), "version 1 of the format"),
        (changed("version", to=3 << 24), "or the bytes of another machine"),
        (changed("counts", to=[0, 5]), "5 keys and 0 tensors"),
        (changed("counts", to=[3, 2**64 - 1]), "18446744073709551615 keys"),
        (changed("counts", to=[2**40, 5]), "1099511627776 tensors"),
        (as_gguf(DOCUMENT)[:60], "it ends within the key 'general.alignment'|it ends within"),
        (changed("keys", 1, 0, to="general.architecture"), "the key 'general.architecture' is there twice"),
        (changed("keys", 0, 0, to="k" * 70_000), "the name of key 1 would have 70000 bytes"),
        (changed("keys", 0, 2, to="\ud800"), "'general.architecture' is not UTF-8"),
        (changed("keys", 0, 1, to=99), "a value of a kind that there is not: 99"),
        (changed("keys", 2, to=["x", 7, 2]).replace(_key(["x", 7, 1]), _key(["x", 0, 2]).replace(b"\0\0\0\0\2", b"\7\0\0\0\2")), "true nor false"),
        (changed("keys", 3, 2, to=[LIST, 1, []]), "is a list of lists"),
        (changed("keys", 3, 2, to=[U32, 2**23, []]), "would have 8388608 elements"),
        (changed("keys", 3, 2, to=[77, 1, []]), "elements of a kind that there is not: 77"),
        (changed("keys", 1, 2, to=0), "must be a power of two"),
        (changed("keys", 1, 2, to=48), "must be a power of two"),
        (changed("keys", 1, 1, to=6), "must be a power of two"),
        (changed("tensors", 0, 0, to="n" * 300), "the name of tensor 1 would have 300 bytes"),
        (changed("tensors", 0, 1, to=[1] * 5), "would have 5 dimensions"),
        (changed("tensors", 0, 1, to=[]), "would have 0 dimensions"),
        (changed("tensors", 0, 1, to=[8, 0]), r"would have the shape \[8, 0\]"),
        (changed("tensors", 0, 1, to=[2**40, 2**40]), "would have the shape"),
        (changed("tensors", 0, 1, to=[2**31 - 1, 2**31 - 1]), "within another one|would end at byte"),
        (changed("tensors", 2, 1, to=[10_000]), r"'c\.bias' would end at byte \d+, and the file has \d+: not a whole copy"),
        (changed("tensors", 0, 2, to=4_000), "of a format that is not known: 4000"),
        (changed("tensors", 1, 1, to=[31, 8]), "no whole blocks of 32"),
        (changed("tensors", 1, 3, to=255), "begins at 255, within another one"),
        (changed("tensors", 1, 3, to=0), "begins at 0, within another one"),
        (changed("tensors", 1, 0, to="a.weight"), "two tensors have the same name"),
    ],
)  # fmt: skip
def test_what_a_header_may_not_say(content: bytes, message: str, tmp_path: Path) -> None:
    import re

    assert re.search(message, refused(tmp_path / "one.gguf", content))


@times
def test_what_is_checked_before_any_library_reads_a_gguf_file(times: int, tmp_path: Path) -> None:
    path = tmp_path / "one.gguf"

    def read(content: bytes) -> None:
        path.write_bytes(content)
        read_header(path)

    whole = write_gguf(tmp_path / "whole.gguf", small_llama(tied=True)).read_bytes()
    fuzz(mutants([*[DOCUMENT] * 4, as_gguf(DOCUMENT), whole], as_gguf, RAWS), read, times, path.name)


def mutated(path: Path) -> tuple[Inputs, Callable[[bytes], object]]:
    """Mutants of all in front of the numbers of a GGUF file, with few bytes of its vocabulary changed, and what puts one in its place."""
    content = path.read_bytes()
    length = len(content) - sum(4 * tensor.elements for tensor in read_header(path).tensors)
    return mutants([content[:length]], as_gguf), lambda begin: path.write_bytes(begin + content[length:])


@pytest.mark.long
@some_times
def test_a_gguf_file_that_is_converted_and_gives_its_tokens(times: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLVER_CACHE", str(tmp_path / "cache"))
    path = write_gguf(tmp_path / "one.gguf", small_llama(tied=True))
    inputs, put = mutated(path)
    made = 0

    def convert() -> None:
        from rlver.components.policy.load import load_policy

        nonlocal made
        made += 1
        model, tokenizer = load_policy(converted(path, f"{made:064d}"[::-1]))
        ids = ChatFormat(tokenizer, "Be kind.").start("Hello")
        with torch.no_grad():
            assert torch.isfinite(model(input_ids=torch.tensor([ids])).logits).all()

    def read(content: bytes) -> None:
        put(content)
        convert()

    torch.set_num_threads(1)
    convert()  # what the first time imports is not timed
    fuzz(inputs, read, times)


def test_a_header_that_asks_for_more_than_the_file_has_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLVER_CACHE", str(tmp_path / "cache"))
    path = write_gguf(tmp_path / "one.gguf", small_llama(tied=True))
    content = path.read_bytes()
    for key, told in (("block_count", "layers and has 2"), ("feed_forward_length", r"it asks for \d+ numbers and has \d+")):
        name = _text(f"llama.{key}") + _number("I", U32)
        at = content.index(name) + len(name)
        path.write_bytes(content[:at] + _number("I", 200_000) + content[at + 4 :])
        with pytest.raises(ValueError, match=rf"^one\.gguf: cannot be read as a model: it asks for .*{told.removeprefix('it asks for ')}"):
            converted(path, key.ljust(64, "0"))


def test_lists_of_a_header_are_bounded_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gguf_header, "MOST_ELEMENTS", 4)
    assert "'tokenizer.ggml.scores' would have 2 elements" in refused(tmp_path / "one.gguf", as_gguf(DOCUMENT))
