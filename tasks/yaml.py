"""YAML 1.2 into plain values: `2e-06` is a number here, where PyYAML reads text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError


class BadYaml(ValueError):
    """A YAML file that cannot be read; the message is one line."""


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping in `path`; empty for an empty file. Raises BadYaml."""
    try:
        values = YAML(typ="safe").load(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise BadYaml(f"{path}: no such file") from error
    except YAMLError as error:
        raise BadYaml(f"{path}: not valid YAML: {' '.join(str(error).split())}") from error
    if not isinstance(values or {}, dict):
        raise BadYaml(f"{path}: expected a mapping, got {type(values).__name__}")
    return values or {}
