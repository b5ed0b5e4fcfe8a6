"""`rlver licences`: the licences of the packages that constraints.txt locks, as the installed packages state them."""

from __future__ import annotations

import re
import sys
from collections import Counter
from importlib import metadata
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import typer

from rlver.components.domain.files import BadFile
from rlver.tasks.runtime import environment

Kind = Literal["permissive", "copyleft", "unknown", "not installed"]
_COPYLEFT = re.compile(
    r"\b(?:A|L)?GPL|GNU (?:Affero|Lesser|Library|General)|\bMPL|Mozilla Public|\bEPL|Eclipse Public|\bCDDL|\bEUPL|CC-BY-(?:SA|NC)", re.I
)
_PERMISSIVE = re.compile(
    r"\bMIT\b|\bBSD|Apache|\bISC\b|\bPSF\b|\bPython(?: Software Foundation|-2\.0)|\bZPL|Zope|Unlicense|\b0BSD|\bCC0|Public Domain|\bHPND|\bzlib|\bNCSA|\bBSL\b|CNRI-Python", re.I
)  # fmt: skip


class Licence(NamedTuple):
    package: str
    version: str
    kind: Kind
    stated: str  # in the package's own words, one line


def register(app: typer.Typer) -> None:
    app.command()(licences)


def licences(every: Annotated[bool, typer.Option("--all", help="List the permissive ones too.")] = False) -> None:
    """List the licences of the locked packages that ask for more than a mention, and those that nobody knows."""
    found = of_locked(environment.project_root() / "constraints.txt")
    for one in found:
        if every or one.kind != "permissive":
            typer.echo(f"{one.kind:<13}  {one.package} {one.version}  {one.stated}")
    typer.echo(", ".join(f"{number} {kind}" for kind, number in Counter(one.kind for one in found).most_common()))


def of_locked(constraints: Path) -> list[Licence]:
    """One entry a package, by name. A choice between a permissive licence and another one is permissive."""
    return [_licence(name, version) for name, version in sorted(locked(constraints))]


def locked(constraints: Path) -> list[tuple[str, str]]:
    """Name and version of each package that this Python needs. Raises BadFile where the file is missing: only a checkout has it."""
    if not constraints.is_file():
        raise BadFile(f"{constraints}: no such file; it belongs to the source of rlver: run `rlver licences` in a checkout")
    lines = re.findall(r"^([A-Za-z0-9._-]+)==([^\s;#]+)(?:; *(.+))?$", constraints.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return [(name, version) for name, version, marker in lines if is_for(sys.version_info[:2], marker)]


def is_for(python: tuple[int, int], marker: str) -> bool:
    """Whether a line with this marker (`python_version < "X.Y"`, or with `>=`) is for this Python; one without is for all."""
    return not marker or (python < tuple(map(int, re.findall(r"\d+", marker)))) is ("<" in marker)


def _licence(name: str, version: str) -> Licence:
    try:
        told = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return Licence(name, version, "not installed", "")
    classified = [one.rpartition(" :: ")[2] for one in told.get_all("Classifier") or [] if one.startswith("License :: ")]

    def first(field: str) -> str:
        return str(next(iter(told.get_all(field) or []), ""))

    stated = first("License-Expression") or "; ".join(one for one in classified if one != "OSI Approved") or first("License")
    stated = next(iter(stated.strip().splitlines()), "")  # some packages state the whole text
    return Licence(name, version, kind_of(stated), stated[:80])


def kind_of(stated: str) -> Kind:
    """What a licence expression, a classifier or a free text comes to; joined by AND or a comma, the strictest counts."""
    parts = re.split(r"(?<!\s)\s+AND\s+|;", stated)
    kinds = [_of_choice(part) for part in parts if part.strip()]
    return next((kind for kind in ("copyleft", "unknown") if kind in kinds), "permissive" if kinds else "unknown")


def _of_choice(stated: str) -> Kind:
    choices = re.split(r"(?<!\s)\s+OR\s+", stated.strip(), flags=re.IGNORECASE)
    if any(_PERMISSIVE.search(choice) and not _COPYLEFT.search(choice) for choice in choices):
        return "permissive"
    return "copyleft" if any(_COPYLEFT.search(choice) for choice in choices) else "unknown"
