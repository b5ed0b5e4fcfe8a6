"""The messages that the code raises, as one page to search: read from the code, so that it cannot grow old.

A message of this project says what was expected, what came and what to do. So the page adds only where it comes from. A text that is put
together before it is raised (`raise Error(reason)`) is not found.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

LAYERS = ("components", "tasks", "flows")
SHORTEST = 15  # characters; what is shorter is part of a longer message, or no sentence
_HEAD = """# Messages

What the code raises, by its part. `…` stands for a name or a number. [Troubleshooting](../troubleshooting.md) has the messages that you are most
likely to meet, with what to do. Not here: messages that are put together before they are raised, and those of other programs.
"""


def page(root: Path) -> str:
    parts: dict[str, dict[str, str]] = {}
    for layer in LAYERS:
        for path in sorted((root / layer).rglob("*.py")):
            place = path.relative_to(root)
            for message in raised(path.read_text(encoding="utf-8")):
                parts.setdefault("/".join(place.parts[:2]), {}).setdefault(message, place.as_posix())
    sections = [
        f"## {part}\n\n| message | raised in |\n|---|---|\n" + "".join(f"| {_cell(text)} | `{place}` |\n" for text, place in found.items())
        for part, found in parts.items()
    ]
    return "\n".join([_HEAD, *sections])


def raised(source: str) -> Iterator[str]:
    """The texts that `raise Error(text)` names first, with `…` where the program fills something in; either text of a choice."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
            for text in _texts(node.exc.args[0]):
                if len(text) >= SHORTEST and " " in text:
                    yield text


def _texts(node: ast.expr) -> Iterator[str]:
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.JoinedStr(values=values):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in values)
        case ast.IfExp(body=body, orelse=otherwise):
            yield from _texts(body)
            yield from _texts(otherwise)


def _cell(text: str) -> str:
    """As code in a table: no line break, no bar, and fenced so that backticks show."""
    plain = " ".join(text.split()).replace("|", "\\|")
    return f"`` {plain} ``" if "`" in plain else f"`{plain}`"
