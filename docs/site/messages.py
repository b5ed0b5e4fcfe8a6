"""The messages that the code says, as one page to search: read from the code, so that it cannot grow old.

A message of this project says what was expected, what came and what to do. So the page adds only where it comes from. On it are the texts of
every `raise`, of every error that is made to be raised later, of what errors carry (CARRIERS), of every warning, and the remedies of
`rlver doctor`. A `raise` that only passes on what another said has no text of its own: `unfound` has these, and a test has a reason for each.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from texts import Program, Scope, Text, name_of, returned

LAYERS = ("components", "tasks", "flows")
CARRIERS = {"Problem"}  # what is wrong with a line of a file: an error is made of several
SILENT = {"typer.Exit", "AssertionError"}  # the end of the program after something was printed, and what cannot happen
NOTES = ("half_done", "nobody_learns")  # functions whose lines a stage prints as they are
DOCTOR = "tasks/commands/doctor.py"
_HEAD = """# Messages

What the code says, by its part. `…` stands for a name or a number. [Troubleshooting](../troubleshooting.md) has the messages that you are most
likely to meet, with what to do. Not here: messages of other programs.
"""


def page(root: Path, program: Program | None = None) -> str:
    program = program or Program.of(root, LAYERS)
    parts: dict[str, dict[str, str]] = {}
    for text, place in raised(program):
        parts.setdefault("/".join(place.split("/")[:2]), {}).setdefault(text, place)
    sections = [_section(part, "message", "made in", parts[part].items()) for part in sorted(parts, key=_order)]
    sections.append(_section("Warnings and notes", "what is said, and the work goes on", "made in", dict(warnings(program)).items()))
    sections.append(_section("rlver doctor", "what to do", "check", remedies(program)))
    return "\n".join([_HEAD, *sections])


def raised(program: Program) -> Iterator[Text]:
    """The texts of errors, with `…` where the program fills something in; both texts of a choice."""
    for node, scope in program.walk():
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            yield from _told(program, node.exc, scope)
        elif isinstance(node, ast.Call) and name_of(node.func) in program.errors | CARRIERS:
            yield from _told(program, node, scope)


def unfound(program: Program) -> Iterator[tuple[str, str]]:
    """The place of each `raise` of a new error, and what it is given as code, where no text of it can be read."""
    for node, scope in program.walk():
        match node:
            case ast.Raise(exc=ast.Call() as error) if (
                ast.unparse(error.func) not in SILENT and next(_told(program, error, scope), None) is None
            ):
                yield scope.place, ast.unparse(error)


def warnings(program: Program) -> Iterator[Text]:
    """What is logged as a warning or an error, printed beside the results, or printed by NOTES."""
    for node, scope in program.walk():
        if isinstance(node, ast.Call) and (said := _warned(node)):
            for text, place in program.messages(said, scope):
                yield Text(text.removeprefix("warning: ").removeprefix("error: "), place)
    for name in NOTES:
        yield from program.returned_by(name)


def remedies(program: Program) -> Iterator[tuple[str, str]]:
    """What `rlver doctor` says to do, and the check that says it."""
    names: dict[str, str] = {}
    for node, scope in program.walk():
        for key, name in _checks(node) if scope.place == DOCTOR else ():
            names[name] = f"{names[name]}, {key}" if name in names else key
    for node, scope in program.walk():
        if scope.place != DOCTOR:
            continue
        if isinstance(node, ast.Call) and name_of(node.func) == "MachineCheck" and len(node.args) == 4:
            found = [(ast.literal_eval(node.args[0]), node.args[3])]
        elif isinstance(node, ast.FunctionDef) and node.name in names:
            scope = Scope(scope.place, node)
            found = [(names[node.name], one.elts[2]) for one in returned(node) if isinstance(one, ast.Tuple) and len(one.elts) == 3]
        else:
            continue
        for check, remedy in found:
            for text in dict.fromkeys(program.messages(remedy, scope)):
                yield text.text, check


def _told(program: Program, call: ast.Call, scope: Scope) -> Iterator[Text]:
    for argument in [*call.args, *(keyword.value for keyword in call.keywords)]:
        yield from program.messages(argument, scope)
    yield from program.returned_by(name_of(call.func))


def _warned(call: ast.Call) -> ast.expr | None:
    """What this call says, if it is a warning."""
    match call:
        case ast.Call(func=ast.Attribute(attr="warning" | "error", value=logger), args=[said, *_]) if "log" in ast.unparse(logger).lower():
            return ast.Call(ast.Name("", ast.Load()), [_filled(said), *call.args[1:]], [])
        case ast.Call(func=ast.Attribute(attr="say"), args=[ast.Constant(value="warning"), said]):
            return said
        case ast.Call(func=ast.Name(id="print") | ast.Attribute(attr="echo"), args=[said], keywords=where):
            beside = {("file", "sys.stderr"), ("err", "True")}
            return said if any((one.arg, ast.unparse(one.value)) in beside for one in where) else None
    return None


def _filled(said: ast.expr) -> ast.expr:
    """`%s` as `…`."""
    if isinstance(said, ast.Constant) and isinstance(said.value, str):
        return ast.Constant(re.sub(r"%[.\d]*[sdrf]", "…", said.value))
    return said


def _checks(node: ast.AST) -> Iterator[tuple[str, str]]:
    """The checks of `rlver doctor` and the functions that make them."""
    if isinstance(node, ast.AnnAssign) and name_of(node.target) == "checks" and isinstance(node.value, ast.Dict):
        for key, check in zip(node.value.keys, node.value.values, strict=True):
            called = check.body.func if isinstance(check, ast.Lambda) and isinstance(check.body, ast.Call) else check
            yield str(ast.literal_eval(key or check)), name_of(called)


def _order(part: str) -> tuple[int, str]:
    return LAYERS.index(part.split("/")[0]), part


def _section(title: str, first: str, second: str, rows: Iterable[tuple[str, str]]) -> str:
    return f"## {title}\n\n| {first} | {second} |\n|---|---|\n" + "".join(f"| {_cell(text)} | `{place}` |\n" for text, place in rows)


def _cell(text: str) -> str:
    """As code in a table: no line break, no bar, and fenced so that backticks show."""
    plain = " ".join(text.split()).replace("|", "\\|")
    return f"`` {plain} ``" if "`" in plain else f"`{plain}`"
