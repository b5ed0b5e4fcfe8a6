"""Both ends of a trial: a process with the program that a model wrote, and one with the tests, which asks it. Imports nothing of the project.

The two share a socket and nothing else. The program never sees the tests, and what it answers comes over as plain values, which are
compared where the program cannot reach: an object that equals everything, a changed builtin or an early end passes no test.

Usage: trial.py program|tests DESCRIPTOR, with {"program": ...} or {"given": ..., "tests": ...} on standard input.
"""

from __future__ import annotations

import ast
import builtins
import ctypes
import importlib
import importlib.abc
import json
import operator
import os
import socket
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from types import ModuleType
from typing import Any

MESSAGE_BYTES = 10 << 20
_LARGE = 1 << 63  # JSON's reader refuses the digits of very large numbers
_SET_DUMPABLE = 4  # of linux/prctl.h
_SEQUENCES: dict[str, type] = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset, "deque": deque}
_SPELLED: dict[str, type] = {"Decimal": Decimal, "Fraction": Fraction, "complex": complex}
_VERBS: dict[str, Callable[..., Any]] = {
    "call": lambda thing, arguments, named: thing(*arguments, **named),
    "getattr": getattr,
    "setattr": setattr,
    "getitem": operator.getitem,
    "setitem": operator.setitem,
    "len": len,
    "bool": bool,
    "iter": iter,
    "next": next,
    "str": str,
}


class _Wire:
    """Messages of JSON over a socket, each with its length before it. Raises EOFError when the other end is gone."""

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)

    def say(self, message: Any) -> None:
        content = json.dumps(message).encode()
        self._socket.sendall(len(content).to_bytes(4, "big") + content)

    def hear(self) -> Any:
        length = int.from_bytes(self._read(4), "big")
        if length > MESSAGE_BYTES:
            raise EOFError(f"a message of {length} bytes")
        return json.loads(self._read(length))

    def _read(self, length: int) -> bytes:
        content = bytearray()
        while len(content) < length:
            part = self._socket.recv(min(length - len(content), 1 << 16))
            if not part:
                raise EOFError("the other end is gone")
            content += part
        return bytes(content)


def packed(value: Any, place: Callable[[Any], int]) -> Any:
    """`value` as JSON: what has a plain type by its content, everything else as the place where its owner keeps it."""
    if value is None or isinstance(value, bool | str | float):
        return value
    if isinstance(value, int):
        return int(value) if -_LARGE < value < _LARGE else ["int", hex(value)]
    if isinstance(value, dict):
        return ["dict", [[packed(key, place), packed(content, place)] for key, content in value.items()]]
    if isinstance(value, range):
        return ["range", value.start, value.stop, value.step]
    if isinstance(value, bytes):
        return ["bytes", value.hex()]
    for name, kind in _SPELLED.items():
        if isinstance(value, kind):
            return [name, str(value)]
    if sequence := [name for name, kind in _SEQUENCES.items() if isinstance(value, kind)]:
        return [sequence[0], [packed(content, place) for content in value]]
    if isinstance(value, type) and vars(builtins).get(name := str(value.__name__)) is value:
        return ["type", name]
    if type(value).__module__ == "numpy" and getattr(value, "ndim", None) == 0:
        return packed(value.item(), place)
    return ["thing", place(value)]


def unpacked(message: Any, thing: Callable[[int], Any]) -> Any:
    """The value of a message. Raises ValueError, KeyError or TypeError for what packed() does not write."""
    if not isinstance(message, list):
        return message
    kind, *words = message
    if kind == "dict":
        return {unpacked(key, thing): unpacked(content, thing) for key, content in words[0]}
    if kind in _SEQUENCES:
        return _SEQUENCES[kind](unpacked(content, thing) for content in words[0])
    if kind in _SPELLED:
        return _SPELLED[kind](words[0])
    if kind == "int":
        return int(words[0], 16)
    if kind == "bytes":
        return bytes.fromhex(words[0])
    if kind == "range":
        return range(*words)
    if kind == "type" and isinstance(found := getattr(builtins, words[0]), type):
        return found
    if kind == "thing":
        return thing(words[0])
    raise ValueError(f"no kind of value: {kind!r}")


class _Text(importlib.abc.InspectLoader):
    """A text as the source of a module."""

    def __init__(self, text: str) -> None:
        self._text = text

    def get_source(self, fullname: str) -> str:
        return self._text


def _run(name: str, text: str, world: Mapping[str, Any]) -> dict[str, Any]:
    """The names that `text` leaves behind, run as the module `name` (not __main__: an answer may end in an example of its use)."""
    sys.modules[name] = module = ModuleType(name)
    module.__dict__.update(world)
    _Text(text).exec_module(module)
    return module.__dict__


def answer(wire: _Wire, program: str) -> None:
    """Run the program, then do what is asked of what it left behind, until nobody asks."""
    things: list[Any] = []

    def place(thing: Any) -> int:
        things.append(thing)
        return len(things) - 1

    world = _run("program", program, {})
    asked: list[str] = wire.hear()
    wire.say(packed({name: world[name] for name in asked if name in world}, place))
    while True:
        verb, words = wire.hear()
        try:
            said = [True, packed(_VERBS[verb](*(unpacked(word, things.__getitem__) for word in words)), place)]
        except BaseException as error:  # of the program: the tests decide what it is worth
            said = [False, type(error).__name__]
        wire.say(said)


class ProgramError(Exception):
    """The program raised something that is no error of Python's own."""


class _Thing:
    """Something of the program's that has no plain value, as the tests see it. It equals itself only."""

    def __init__(self, wire: _Wire, place: int) -> None:
        self.__dict__.update(_wire=wire, _place=place)

    def _ask(self, verb: str, *words: Any) -> Any:
        self._wire.say([verb, [packed(word, _place) for word in (self, *words)]])
        went_well, said = self._wire.hear()
        if went_well is not True:
            raised = getattr(builtins, str(said), None)
            raise raised if isinstance(raised, type) and issubclass(raised, Exception) else ProgramError(said)
        return unpacked(said, lambda place: _Thing(self._wire, place))

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self._ask("call", arguments, named)

    def __getattr__(self, name: str) -> Any:
        return self._ask("getattr", name)

    def __setattr__(self, name: str, value: Any) -> None:
        self._ask("setattr", name, value)

    def __getitem__(self, key: Any) -> Any:
        return self._ask("getitem", key)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._ask("setitem", key, value)

    def __len__(self) -> int:
        return int(self._ask("len"))

    def __bool__(self) -> bool:
        return self._ask("bool") is True

    def __iter__(self) -> Iterator[Any]:
        found: Iterator[Any] = self._ask("iter")
        return found

    def __next__(self) -> Any:
        return self._ask("next")

    def __str__(self) -> str:
        return str(self._ask("str"))


def _place(thing: Any) -> int:
    """Where the program keeps it: only its own things can be handed back to it."""
    if not isinstance(thing, _Thing):
        raise TypeError(f"the program cannot be given a {type(thing).__name__}")
    place: int = thing.__dict__["_place"]
    return place


def judge(wire: _Wire, given: str, tests: str) -> None:
    """Run the tests after what is given, with the names that neither has taken from the program. Raises whatever a test that fails raises.

    A module that the tests use is Python's own, and so is a builtin, unless the tests ask for no other name of the program
    (`assert sum(1, 2) == 3`, where `sum` is what was to be written).
    """
    world = _run("given", given, {})
    names = [node for node in ast.walk(ast.parse(tests)) if isinstance(node, ast.Name)]
    owners = {node.value.id for node in ast.walk(ast.parse(tests)) if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)}
    modules = {name: importlib.import_module(name) for name in owners & sys.stdlib_module_names - world.keys()}
    used = {node.id for node in names if isinstance(node.ctx, ast.Load)} - {node.id for node in names if isinstance(node.ctx, ast.Store)}
    wanted = used - world.keys() - modules.keys()
    asked = sorted(wanted - vars(builtins).keys() or wanted)
    wire.say(asked)
    found = unpacked(wire.hear(), lambda place: _Thing(wire, place))
    _run("tests", tests, world | modules | {name: found[name] for name in asked if name in found})


def main(part: str, descriptor: str) -> None:
    if part == "tests" and sys.platform == "linux":  # no process of the same user may look into this one
        ctypes.CDLL(None).prctl(_SET_DUMPABLE, 0, 0, 0, 0)
    texts = json.load(sys.stdin)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    wire = _Wire(int(descriptor))
    if part == "program":
        answer(wire, texts["program"])
    else:
        try:
            judge(wire, texts["given"], texts["tests"])
        except BaseException:  # also a test that leaves early
            os._exit(1)
        os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
