"""The page of every parameter: key, value and comment, read from params.yaml line by line and checked against what the file says."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

_LINE = re.compile(r"^(?P<indent> *)(?P<key>[\w-]+):(?: +(?P<value>[^#\s][^#]*?))?(?: +# (?P<comment>.*))?$")


def page(path: Path) -> str:
    """Raises ValueError when a parameter of the file would not be on the page, or with another value."""
    text = path.read_text(encoding="utf-8")
    lines = [
        "# Parameters",
        "",
        "Every number that can change a result, as `params.yaml` has it. `params/VARIANT.yaml` replaces single values; an unknown key is an error.",
        "Made from the file when this site was built.",
        "",
    ]
    above: list[str] = []
    shown: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if (found := _LINE.match(line)) is None:
            raise ValueError(f"{path}:{number}: expected `key: value  # comment`, got {line!r}")
        depth = len(found["indent"]) // 2
        above = [*above[:depth], found["key"]]
        comment = (found["comment"] or "").replace("|", "\\|")
        if found["value"] is None and depth == 0:
            lines += ["", f"## {found['key']}", "", f"{comment}\n" if comment else "", "| key | value | |", "|---|---|---|"]
        elif found["value"] is None:
            lines.append(f"| `{'.'.join(above[1:])}` | | {comment} |")
        else:
            shown[".".join(above)] = found["value"]
            key = ".".join(above[1:] or above)
            if depth == 0:
                lines += [f"## {key}", "", "| key | value | |", "|---|---|---|"]
            lines.append(f"| `{key}` | `{found['value']}` | {comment} |")
    yaml = YAML(typ="safe")
    meant = dict(_leaves(yaml.load(text), shown))
    if meant != (read := {key: yaml.load(value) for key, value in shown.items()}):
        raise ValueError(
            f"{path}: not on the page as in the file: {sorted(key for key in meant | read if meant.get(key) != read.get(key))}"
        )
    return "\n".join(lines) + "\n"


def _leaves(values: Mapping[str, Any], shown: Mapping[str, str], above: str = "") -> Iterator[tuple[str, Any]]:
    """A mapping written on one line is one value."""
    for key, value in values.items():
        name = f"{above}{key}"
        if isinstance(value, Mapping) and name not in shown:
            yield from _leaves(value, shown, f"{name}.")
        else:
            yield name, value
