"""Reading people of the sealed test, or their dialogues, is told to who listens; the record is kept elsewhere (tasks/runtime/sealed_record.py).

Every reader of personas and of transcripts calls `tell`. Without a listener nothing happens: code of one's own is not counted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol

SEALED = "sealed"
Listener = Callable[[set[str], set[str]], None]  # ids of sealed personas, names of policies


class Held(Protocol):
    """A dialogue; of the class itself, `rlver --help` would import pydantic."""

    @property
    def persona_id(self) -> str: ...

    @property
    def policy(self) -> str: ...


_SPLIT = re.compile(r"-(train|test|sealed)-\d{4,}-")
_listeners: list[Listener] = []  # of this process; the innermost hears


def split_in(persona_id: str) -> str | None:
    """The set that an id names: en-test-0001-…; None where it names none."""
    found = _SPLIT.search(persona_id)
    return found[1] if found else None


def tell(persona_ids: Iterable[str], policies: Iterable[str] = ()) -> None:
    """Those of the sealed test among these personas were read, in what `policies` said to them where that is known."""
    if _listeners and (sealed := {one for one in persona_ids if split_in(one) == SEALED}):
        _listeners[-1](sealed, set(policies))


def tell_of(dialogues: Iterable[Held]) -> None:
    """The same of dialogues, which name their policy."""
    sealed = [one for one in dialogues if _listeners and split_in(one.persona_id) == SEALED]
    tell((one.persona_id for one in sealed), (one.policy for one in sealed))


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)
