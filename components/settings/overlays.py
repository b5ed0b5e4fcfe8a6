"""The files of parameters, and which of them make a variant.

A variant is an overlay, params/<variant>.yaml, or a recipe: parts of params/recipes joined by `-` (qwen7b-ppo-think-vanilla-chinese),
together with params/recipes/common.yaml. No two files of a recipe set the same value, so the order of its parts means nothing.
An overlay may begin with `extends: OTHER`: it is then only its differences to params/OTHER.yaml.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rlver.components.domain.files import BadFile, read_yaml

COMMON = "common"
_NAME = re.compile(r"\w[\w.-]{0,59}")  # of a variant; it becomes part of paths, which take 255 bytes
EXTENDS = "extends"  # the overlay that an overlay changes
FREE = frozenset({"endpoint.prices", "promotion.margins"})  # mappings to which an overlay may add keys of its own
RENAMED = {"audit.limits.parting": "audit.limits.reward_overoptimization"}  # a parameter's old name and its present one


class SettingsError(ValueError):
    """A parameter is missing, unknown, of the wrong type or impossible; the message is one readable line."""


class UnknownVariant(SettingsError):
    """No file makes a variant of this name."""


def overlays_of(folder: Path, variant: str) -> dict[str, Path]:
    """The files in `folder` that make `variant`, by the name that messages give them. Raises UnknownVariant when there are none."""
    if not _NAME.fullmatch(variant):
        raise UnknownVariant(f"{variant[:80]!r} is no name of a variant: letters, digits, - _ and . only, at most 60")
    one = folder / f"{variant}.yaml"
    if one.is_file():
        return _extended(folder, variant)
    names = (COMMON, *variant.split("-"))
    parts = {f"params/recipes/{name}.yaml": folder / "recipes" / f"{name}.yaml" for name in names}
    if len(parts) == len(names) and all(path.is_file() for path in parts.values()):
        return parts
    known = ", ".join(sorted(path.stem for path in folder.glob("*.yaml"))) or "none"
    joined = ", ".join(sorted(path.stem for path in folder.glob("recipes/*.yaml") if path.stem != COMMON))
    recipe = f"; or parts of a recipe, joined by -: {joined}" if joined else ""
    raise UnknownVariant(f"unknown variant {variant!r}: there is no params/{variant}.yaml (known: {known}{recipe})")


def _extended(folder: Path, variant: str) -> dict[str, Path]:
    """The overlay of `variant` behind the one that it extends."""
    name, path = f"params/{variant}.yaml", folder / f"{variant}.yaml"
    other = read_parameters(path).get(EXTENDS)
    if other is None:
        return {name: path}
    below = folder / f"{other}.yaml"
    if not _NAME.fullmatch(str(other)) or not below.is_file() or EXTENDS in read_parameters(below):
        raise SettingsError(f"{name}: {EXTENDS} names an overlay of params/ that extends no other, got {str(other)[:80]!r}")
    return {f"params/{other}.yaml": below, name: path}


def with_overlays(values: Mapping[str, Any], files: Mapping[str, Path]) -> dict[str, Any]:
    """`values` with what the files replace. Raises SettingsError for an unknown key, or a value that two of them set."""
    result, set_by = dict(values), dict[str, str]()
    extends = any(EXTENDS in read_parameters(path) for path in files.values())
    for source, path in files.items():
        overlay = {key: value for key, value in read_parameters(path).items() if key != EXTENDS}
        for name in _names(overlay):
            if name in set_by and not extends:
                raise SettingsError(f"{set_by[name]} and {source} both set {name}: a recipe takes one part of a kind")
            set_by[name] = source
        result = overlaid(result, overlay, source)
    return result


def overlaid(base: Mapping[str, Any], overlay: Mapping[str, Any], source: str, path: tuple[str, ...] = ()) -> dict[str, Any]:
    """`base` with the values of `overlay` in place of its own; `source` is where the overlay is from, for messages."""
    result = dict(base)
    for key, value in overlay.items():
        dotted = ".".join((*path, str(key)))
        if key not in base and ".".join(path) not in FREE:
            raise SettingsError(f"{source}: unknown key {dotted!r}; params.yaml has {', '.join(sorted(base))} there")
        if base.get(key) and isinstance(base[key], Mapping) and isinstance(value, Mapping):  # an empty mapping takes any keys
            result[key] = overlaid(base[key], value, source, (*path, str(key)))
        else:
            result[key] = value
    return result


def read_parameters(path: Path) -> dict[str, Any]:
    """The mapping in `path`. Raises SettingsError for a missing, broken or empty file."""
    try:
        values = read_yaml(path)
    except BadFile as error:
        raise SettingsError(str(error) if path.exists() else f"{error}; run from the project's root") from error
    if not values:
        raise SettingsError(f"{path}: no parameter in it; write one into it, or delete the file")
    for name in _names(values):
        if name in RENAMED:
            raise SettingsError(f"{path}: {name} is now called {RENAMED[name]}; rename it there")
    return values


def _names(values: Mapping[str, Any], before: str = "") -> Iterator[str]:
    """The dotted names of all values."""
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _names(value, f"{before}{key}.")
        else:
            yield f"{before}{key}"
