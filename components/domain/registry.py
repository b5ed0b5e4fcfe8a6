"""What can be added by a module of its own: users and their halves, rewards, algorithms, sources of models, studies and their panels;
each found by name.

A kind of this project is found by its place: the name fills the `*` of the registry's pattern. One of another package is an entry point of the
group. Nothing is imported before it is asked for by name, and a module of kinds imports heavy libraries inside its functions only: settings load
it to check the kind's own section of parameters.
"""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from typing import Any

_NAME = re.compile(r"[a-z][a-z0-9_]*", re.ASCII)


class UnknownKind(ValueError):
    """Nobody brings a kind of this name, or two do; the message is one line with the names that are known."""


@dataclass(frozen=True)
class Registry:
    """The kinds of one noun. `pattern` is where those of this project lie, as package.*.module:ATTRIBUTE or package.*:ATTRIBUTE."""

    noun: str
    group: str
    pattern: str = ""

    def load(self, name: str) -> Any:
        """What is registered as `name`; a name of this project's own is never another package's. Raises UnknownKind."""
        if self._is_own(name):
            module, _, attribute = self.pattern.replace("*", name).partition(":")
            return getattr(import_module(module), attribute)
        one = self._brought(name)
        try:
            return one.load()
        except Exception as error:  # code of others
            raise UnknownKind(
                f"{self.noun} {name!r} of {_distribution(one)} cannot be loaded: {type(error).__name__}: {error}; mend or uninstall that package"
            ) from error

    def parameters(self, name: str) -> Any:
        """The class (kinds.Section) of the section that the kind `name` brings; None where it has none. Raises UnknownKind."""
        return self.load(name).parameters

    def origin(self, name: str) -> str | None:
        """Name and version of the distribution that brings `name`, as `acme-users 1.2`; None for a kind of this project. Raises UnknownKind."""
        return None if self._is_own(name) else _distribution(self._brought(name))

    def has(self, name: str) -> bool:
        return self._is_own(name) or any(one.name == name for one in _installed(self.group))

    def names(self) -> list[str]:
        """All that are known, in alphabetical order."""
        return sorted({*self._own(), *(one.name for one in _installed(self.group))})

    def check(self, name: str) -> str:
        """`name` as it is. Raises UnknownKind."""
        if not self.has(name):
            raise UnknownKind(f"unknown {self.noun} {name[:80]!r}: choose one of {', '.join(self.names())}")
        return name

    def _brought(self, name: str) -> EntryPoint:
        self.check(name)
        first, *others = [one for one in _installed(self.group) if one.name == name]
        if others:
            both = " and ".join(_distribution(one) for one in (first, *others))
            raise UnknownKind(f"{self.noun} {name!r} is brought by {both}: remove one of them")
        return first

    def _is_own(self, name: str) -> bool:
        return bool(self.pattern and _NAME.fullmatch(name)) and _has(self.pattern, name)

    def _own(self) -> Iterator[str]:
        if self.pattern:
            package = import_module(self.pattern.partition(".*")[0])
            yield from (one.name for one in pkgutil.iter_modules(package.__path__) if self._is_own(one.name))


@cache
def _has(pattern: str, name: str) -> bool:
    """Whether the module sets the attribute; read from its text, so that a list of names imports none of them."""
    module, _, attribute = pattern.replace("*", name).partition(":")
    place = find_spec(f"{pattern.partition('.*')[0]}.{name}")
    spec = place if place is None or place.name == module else place.submodule_search_locations and find_spec(module)
    if not spec:
        return False
    text: str | None = getattr(spec.loader, "get_source", lambda _: None)(module)
    return bool(text and re.search(rf"^(?:\w+ = )*{attribute}\b[^=\n]*=", text, re.MULTILINE))


@cache
def _installed(group: str) -> tuple[EntryPoint, ...]:
    return tuple(entry_points(group=group))


def packages() -> list[str]:
    """Name and version of every other package that brings a kind of anything."""
    groups = (APPRAISERS, SPEAKERS, SIMULATORS, REWARDS, ALGORITHMS, MODELS, PANELS, STUDIES)
    return sorted({_distribution(one) for kinds in groups for one in _installed(kinds.group)})


def _distribution(one: EntryPoint) -> str:
    return f"{one.dist.name} {one.dist.version}" if one.dist else one.value


APPRAISERS = Registry("appraiser", "rlver.appraisers", "rlver.components.users.*.kind:APPRAISER")
SPEAKERS = Registry("speaker", "rlver.speakers", "rlver.components.users.*.kind:SPEAKER")
SIMULATORS = Registry("simulator", "rlver.simulators", "rlver.components.users.*.kind:SIMULATOR")
REWARDS = Registry("reward", "rlver.rewards", "rlver.components.rollout.rewards.*:REWARD")
ALGORITHMS = Registry("algorithm", "rlver.algorithms", "rlver.components.training.algorithms.*:ALGORITHM")
MODELS = Registry("source of models", "rlver.models", "rlver.components.weights.sources.*:SOURCE")
PANELS = Registry("panel of a study", "rlver.panels", "rlver.tasks.studies.*.panel:PANEL")
STUDIES = Registry("study", "rlver.studies")  # this project's own are the rooms of tasks/studies
