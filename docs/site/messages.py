"""The messages that the code raises, as one page to search: read from the code, so that it cannot grow old.

A message of this project says what was expected, what came and what to do. So the page adds only where it comes from. Found are the texts in
every `raise` and in every error that is made to be raised later; not those that are put together in a variable before
(`unfound` has these, and a test has a reason for each).
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

LAYERS = ("components", "tasks", "flows")
BUILTIN = frozenset(name for name, one in vars(builtins).items() if isinstance(one, type) and issubclass(one, BaseException))
_HEAD = """# Messages

What the code raises, by its part. `…` stands for a name or a number. [Troubleshooting](../troubleshooting.md) has the messages that you are most
likely to meet, with what to do. Not here: messages that are put together before they are raised, and those of other programs.
"""


@dataclass(frozen=True)
class Known:
    """What a `raise` may name and another module holds: classes of errors, texts at the top of a module, functions that return texts or errors."""

    errors: Collection[str] = BUILTIN
    constants: Mapping[str, ast.expr] = field(default_factory=dict)
    returned: Mapping[str, Sequence[ast.expr]] = field(default_factory=dict)


def page(root: Path) -> str:
    parts: dict[str, dict[str, str]] = {}
    known = known_in(root)
    for path in sources(root):
        place = path.relative_to(root)
        for message in raised(path.read_text(encoding="utf-8"), known):
            parts.setdefault("/".join(place.parts[:2]), {}).setdefault(message, place.as_posix())
    sections = [
        f"## {part}\n\n| message | raised in |\n|---|---|\n" + "".join(f"| {_cell(text)} | `{place}` |\n" for text, place in found.items())
        for part, found in parts.items()
    ]
    return "\n".join([_HEAD, *sections])


def sources(root: Path) -> list[Path]:
    return [path for layer in LAYERS for path in sorted((root / layer).rglob("*.py"))]


def known_in(root: Path) -> Known:
    return known_in_texts(path.read_text(encoding="utf-8") for path in sources(root))


def known_in_texts(modules: Iterable[str]) -> Known:
    bases: dict[str, set[str]] = {}
    constants: dict[str, ast.expr] = {}
    returned: dict[str, list[ast.expr]] = {}
    for tree in map(ast.parse, modules):
        constants |= _constants(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                bases[node.name] = {_name(base) for base in node.bases}
            elif isinstance(node, ast.FunctionDef):
                values = [one.value for one in ast.walk(node) if isinstance(one, ast.Return) and one.value is not None]
                returned.setdefault(node.name, []).extend(values)
    errors = set(BUILTIN)
    while more := {name for name, above in bases.items() if above & errors} - errors:
        errors |= more
    return Known(errors, constants, returned)


def raised(source: str, known: Known | None = None) -> Iterator[str]:
    """The texts of errors, with `…` where the program fills something in; both texts of a choice."""
    tree = ast.parse(source)
    known = known or Known()
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            yield from _messages(node.exc, known)
        elif isinstance(node, ast.Call) and _name(node.func) in known.errors:
            yield from _messages(node, known)


def unfound(source: str, known: Known) -> Iterator[str]:
    """What each `raise` of a new error is given, as code, where no text of it can be read here."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and not list(_messages(node.exc, known)):
            yield ast.unparse(node.exc)


def _messages(call: ast.Call, known: Known) -> Iterator[str]:
    for argument in [*call.args, *known.returned.get(_name(call.func), ())]:
        for text in _texts(argument, known):
            if len(re.findall(r"[^\W\d_]{2,}", text)) > 1 and " " in text:
                yield text


def _texts(node: ast.expr, known: Known) -> Iterator[str]:
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.JoinedStr(values=values):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in values)
            for part in values:  # a text that another function returns, or a module names, inside this one
                if isinstance(part, ast.FormattedValue) and isinstance(part.value, ast.Call | ast.Name):
                    yield from _texts(part.value, known)
        case ast.IfExp(body=body, orelse=otherwise):
            yield from _texts(body, known)
            yield from _texts(otherwise, known)
        case ast.Name(id=name) if name in known.constants:
            yield from _texts(known.constants[name], known)
        case ast.List(elts=parts) | ast.BoolOp(values=parts):
            for part in parts:
                yield from _texts(part, known)
        case ast.Call(func=ast.Attribute(value=ast.JoinedStr() as text)):  # f"…".replace(…)
            yield from _texts(text, known)
        case ast.Call(func=function, args=arguments):
            for part in arguments:
                yield from _texts(part, known)
            for value in known.returned.get(_name(function), ()):
                if isinstance(value, ast.JoinedStr | ast.Constant | ast.IfExp):
                    yield from _texts(value, known)


def _constants(tree: ast.Module) -> dict[str, ast.expr]:
    """The texts that a module names at its top."""
    return {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant | ast.JoinedStr)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _cell(text: str) -> str:
    """As code in a table: no line break, no bar, and fenced so that backticks show."""
    plain = " ".join(text.split()).replace("|", "\\|")
    return f"`` {plain} ``" if "`" in plain else f"`{plain}`"
