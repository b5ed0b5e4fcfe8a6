"""What stands in front of the numbers of a GGUF file, checked before any library reads it.

The file says itself how many keys, texts, list elements and tensors follow, and where each is; a library believes it. Here nothing is taken
at its word: every length is held against the bytes that are there, and against what a model can need. The format: ggml's docs/gguf.md.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

MAGIC = b"GGUF"
VERSIONS = (2, 3)
MOST_KEYS, MOST_TENSORS = 4_096, 2**16  # the largest models have some sixty and some thousands
MOST_KEY, MOST_NAME = 2**16 - 1, 256  # bytes
MOST_TEXT = 2**24  # bytes of one text; the longest are chat templates
MOST_ELEMENTS = 2**22  # of all lists together; the largest vocabularies have a third, with their merges, kinds and scores
MOST_DIMENSIONS = 4
MOST_SIDE = 2**31 - 1  # of one dimension
MOST_ALIGNMENT = 2**16
ALIGNMENT = "general.alignment"
_USUAL_ALIGNMENT = 32
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "B", 10: "Q", 11: "q", 12: "d"}  # by the number of a kind
_BOOL, _TEXT, _LIST = 7, 8, 9


class BadGguf(ValueError):
    """What is wrong with a file, without its name."""


@dataclass(frozen=True)
class TensorEntry:
    """A row of the table: where the numbers of a tensor are, and how many. `kind` is ggml's number of their format."""

    name: str
    sides: tuple[int, ...]  # the fastest first
    kind: int
    offset: int  # from where the numbers begin

    @property
    def elements(self) -> int:
        return math.prod(self.sides)


@dataclass(frozen=True)
class GgufHeader:
    """`values` has the scalars and texts; of a list, only how many elements it has is kept, in `lists`."""

    values: dict[str, int | float | bool | str]
    lists: dict[str, int]
    tensors: tuple[TensorEntry, ...]


def read_header(path: Path) -> GgufHeader:
    """The header of the file at `path`. Raises ValueError in one line that names the file and what is wrong, and OSError."""
    with path.open("rb") as file:
        try:
            reader = _Reader(file, path.stat().st_size)
            header = _header(reader)
            _check_places(header, reader)
        except BadGguf as fault:
            raise ValueError(f"{path.name}: cannot be read as a model: {fault}; download it again") from None
    return header


class _Reader:
    """Reads forward. Raises BadGguf where the file ends too soon."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self.file, self.size, self.place = file, size, 0

    def bytes(self, count: int, what: str) -> bytes:
        if count > self.size - self.place:
            raise BadGguf(f"it ends within {what}: damaged, or not a whole copy")
        self.place += count
        return self.file.read(count)

    def number(self, kind: str, what: str) -> int:
        (value,) = struct.unpack(f"<{kind}", self.bytes(struct.calcsize(kind), what))
        return int(value)

    def text(self, most: int, what: str) -> str:
        length = self.number("Q", what)
        if length > most:
            raise BadGguf(f"{what} would have {length} bytes, of at most {most}")
        try:
            return self.bytes(length, what).decode("utf-8")
        except UnicodeDecodeError:
            raise BadGguf(f"{what} is not UTF-8") from None


def _header(reader: _Reader) -> GgufHeader:
    if reader.bytes(4, "its first bytes") != MAGIC:
        raise BadGguf(f"it does not begin with {MAGIC.decode()}")
    if (version := reader.number("I", "its version")) not in VERSIONS:
        raise BadGguf(f"it has version {version} of the format, or the bytes of another machine; versions 2 and 3 are read")
    tensors, keys = (reader.number("Q", "its counts") for _ in range(2))
    if keys > MOST_KEYS or not 0 < tensors <= MOST_TENSORS:
        raise BadGguf(f"it would have {keys} keys and {tensors} tensors; 0 to {MOST_KEYS} and 1 to {MOST_TENSORS} are read")
    header = GgufHeader({}, {}, ())
    elements = 0
    for number in range(keys):
        key = reader.text(MOST_KEY, f"the name of key {number + 1}")
        if key in header.values or key in header.lists:
            raise BadGguf(f"the key {key[:100]!r} is there twice")
        what = f"the key {key[:100]!r}"
        if (kind := reader.number("I", what)) == _LIST:
            header.lists[key] = _list(reader, what, MOST_ELEMENTS - elements)
            elements += header.lists[key]
        else:
            header.values[key] = _value(reader, kind, what)
    return GgufHeader(header.values, header.lists, tuple(_tensor(reader, number) for number in range(tensors)))


def _value(reader: _Reader, kind: int, what: str) -> int | float | bool | str:
    if kind == _TEXT:
        return reader.text(MOST_TEXT, what)
    if kind not in _SCALARS:
        raise BadGguf(f"{what} has a value of a kind that there is not: {kind}")
    (value,) = struct.unpack(f"<{_SCALARS[kind]}", reader.bytes(struct.calcsize(_SCALARS[kind]), what))
    if kind == _BOOL:
        if value not in (0, 1):
            raise BadGguf(f"{what} is neither true nor false: {value}")
        return bool(value)
    return float(value) if isinstance(value, float) else int(value)


def _list(reader: _Reader, what: str, most: int) -> int:
    """How many elements it has. Lists of lists are refused: no model has one, and readers go into each."""
    kind, count = reader.number("I", what), reader.number("Q", what)
    if kind == _LIST:
        raise BadGguf(f"{what} is a list of lists")
    if count > most:
        raise BadGguf(f"{what} would have {count} elements; all lists together have at most {MOST_ELEMENTS}")
    if kind == _TEXT:
        for _ in range(count):
            reader.text(MOST_TEXT, what)
    elif kind in _SCALARS:
        reader.bytes(count * struct.calcsize(_SCALARS[kind]), what)
    else:
        raise BadGguf(f"{what} has elements of a kind that there is not: {kind}")
    return count


def _tensor(reader: _Reader, number: int) -> TensorEntry:
    name = reader.text(MOST_NAME, f"the name of tensor {number + 1}")
    what = f"the entry of the tensor {name[:100]!r}"
    if not 0 < (count := reader.number("I", what)) <= MOST_DIMENSIONS:
        raise BadGguf(f"the tensor {name[:100]!r} would have {count} dimensions, of at most {MOST_DIMENSIONS}")
    sides = tuple(reader.number("Q", what) for _ in range(count))
    if not all(0 < side <= MOST_SIDE for side in sides):
        raise BadGguf(f"the tensor {name[:100]!r} would have the shape {list(sides)}")
    return TensorEntry(name, sides, reader.number("I", what), reader.number("Q", what))


def _check_places(header: GgufHeader, reader: _Reader) -> None:
    """Raise BadGguf unless each tensor lies whole within the file, and no two on the same bytes."""
    from gguf.constants import GGML_QUANT_SIZES

    sizes = {int(kind): (int(block), int(size)) for kind, (block, size) in GGML_QUANT_SIZES.items()}  # numbers of a block, and its bytes
    alignment = header.values.get(ALIGNMENT, _USUAL_ALIGNMENT)
    if ALIGNMENT in header.lists or type(alignment) is not int or not 8 <= alignment <= MOST_ALIGNMENT or alignment & (alignment - 1):
        raise BadGguf(f"{ALIGNMENT} must be a power of two from 8 to {MOST_ALIGNMENT}")
    begins = -(-reader.place // alignment) * alignment
    if len({tensor.name for tensor in header.tensors}) < len(header.tensors):
        raise BadGguf("two tensors have the same name")
    free = 0
    for tensor in sorted(header.tensors, key=lambda one: one.offset):
        shown = f"the tensor {tensor.name[:100]!r}"
        if tensor.kind not in sizes:
            raise BadGguf(f"{shown} has numbers of a format that is not known: {tensor.kind}")
        block, size = sizes[tensor.kind]
        if tensor.sides[0] % block:
            raise BadGguf(f"{shown} has rows of {tensor.sides[0]} numbers, which are no whole blocks of {block}")
        if tensor.offset % alignment or tensor.offset < free:
            raise BadGguf(f"{shown} begins at {tensor.offset}, within another one or between the steps of {alignment}")
        free = tensor.offset + tensor.elements // block * size
        if begins + free > reader.size:
            raise BadGguf(f"{shown} would end at byte {begins + free}, and the file has {reader.size}: not a whole copy")
