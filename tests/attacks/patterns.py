"""Every regular expression of the product, found in its source, and hostile strings made for each. Run as a program: tries them.

A pattern that is written out is read from the source; one that is put together when its module is imported is taken from there. One
that is put together later, inside a function, needs an example in BUILT, so that none is left out unseen.
"""

from __future__ import annotations

import ast
import importlib
import json
import re
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from re import _constants, _parser  # type: ignore[attr-defined]  # isort: skip

from rlver.components.endpoint import chat as faults
from rlver.components.personas import profiles as profile_text
from rlver.components.users.scripted import reading
from rlver.components.users.special import signs

SIZE = 100_000
SECONDS = 1.0
USES = {"match", "fullmatch", "search", "finditer", "findall", "split", "sub", "subn"}

# Patterns that functions put together: an example each, as it comes in use.
BUILT = {
    "components/endpoint/chat.py": [r"sk\-secret"],
    "components/personas/profiles.py": [rf"{profile_text._DECORATED}年龄\W*?[:：]\**[ \t]*(?P<value>\S[^\n]*)$"],
    "tasks/tracking/provenance.py": [r"vanilla\-grpo-[0-9a-f]{12}"],
}
# Files whose patterns read our own text only, and why that is so.
OURS = {
    "tasks/commands/workspace.py": "the pipeline files that come along with the code",
    "components/domain/registry.py": "the text of modules that this process could import as well",
    "components/report/ink.py": "SVG that matplotlib wrote; foreign names in it are escaped, and short",
}
# Patterns that are given the beginning of a text only: (file, name or function), and how many characters.
BOUNDED = {
    ("components/endpoint/chat.py", "_fault_of_all"): 2 * faults._QUOTED_CHARACTERS + 3,
    ("components/users/scripted/reading.py", "of"): reading._READ_CHARACTERS,
    ("components/users/scripted/reading.py", "_REPORTED"): reading._READ_CHARACTERS,
    ("components/users/special/signs.py", "_any"): signs._READ_CHARACTERS,
}


@dataclass(frozen=True)
class Found:
    """A pattern, where it is written, and the methods it is used by."""

    where: str
    pattern: str
    flags: int
    uses: tuple[str, ...]
    size: int = SIZE  # characters that it is given at most


def calls(tree: ast.AST) -> Iterator[ast.Call]:
    """Each call of a function of `re` that takes a pattern."""
    for node in ast.walk(tree):
        named = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name)
        if named and node.func.value.id in {"re", "regex"} and node.func.attr in {"compile", *USES}:
            yield node


def found(root: Path) -> list[Found]:
    """Every pattern of the product. Fails where a pattern is neither written out, nor made on import, nor in BUILT."""
    files = [path for package in ("components", "tasks", "flows") for path in sorted((root / package).rglob("*.py"))]
    trees = {path.relative_to(root).as_posix(): ast.parse(path.read_text(encoding="utf-8")) for path in files}
    uses = used_by(trees.values())
    result = []
    for name, tree in trees.items():
        if name in OURS:
            continue
        imported = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module == "re"]
        assert not imported, f"{name}: write `import re`, so that its patterns are found"
        names = assigned(tree)
        unknown = []
        inside = {id(call): node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) for call in calls(node)}
        for call in calls(tree):
            assert isinstance(call.func, ast.Attribute)
            bound = BOUNDED.get((name, names.get(id(call)) or inside.get(id(call), "")), SIZE)
            method = tuple(uses.get(names.get(id(call), ""), USES)) if call.func.attr == "compile" else (call.func.attr,)
            try:
                pattern = ast.literal_eval(call.args[0])
                result.append(Found(f"{name}:{call.lineno}", pattern, flags_of(call), method, bound))
            except ValueError:
                unknown.append((call, method, bound))
        if unknown:
            made = on_import(name)
            for call, method, bound in unknown:
                here = [(text, flags) for line, text, flags in made if call.lineno <= line <= (call.end_lineno or line)]
                here = here or [(text, flags_of(call)) for text in BUILT.get(name, ())]
                assert here, f"{name}:{call.lineno}: a pattern that is put together in a function needs an example in BUILT"
                result += [Found(f"{name}:{call.lineno}", text, flags, method, bound) for text, flags in here]
    return result


def flags_of(call: ast.Call) -> int:
    """The flags named in a call, whatever their place: re.sub takes them last."""
    names = {node.attr for node in ast.walk(call) if isinstance(node, ast.Attribute) and node.attr.isupper() and hasattr(re, node.attr)}
    return sum({getattr(re, name).value for name in names})


def assigned(tree: ast.AST) -> dict[int, str]:
    """The name that a call's value gets, by the call's identity."""
    pairs = [(node.targets[0], node.value) for node in ast.walk(tree) if isinstance(node, ast.Assign)]
    return {id(value): target.id for target, value in pairs if isinstance(target, ast.Name)}


def used_by(trees: Any) -> dict[str, set[str]]:
    """The methods of each name, anywhere."""
    result: dict[str, set[str]] = {}
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.attr in USES:
                result.setdefault(node.value.id, set()).add(node.attr)
    return result


def on_import(name: str) -> list[tuple[int, str, int]]:
    """(line, pattern, flags) of what the module `name` compiles while it is imported."""
    made: list[tuple[int, str, int]] = []
    real = re.compile

    def noted(pattern: Any, flags: Any = 0) -> Any:
        caller = sys._getframe(1)
        if caller.f_code.co_filename.endswith(name):
            made.append((caller.f_lineno, pattern, int(flags)))
        return real(pattern, flags)

    module = name.removesuffix(".py").replace("/", ".")
    re.compile = noted  # type: ignore[assignment]
    try:
        sys.modules.pop(module, None)
        importlib.import_module(module)
    finally:
        re.compile = real
    return made


# Hostile strings


def hostile(pattern: str, flags: int) -> Iterator[str]:
    """Strings of SIZE characters: a dozen that are bad for many patterns, and those that this one's own parts suggest."""
    common = [
        "a",
        " ",
        "\n",
        "\t",
        "0",
        "\\",
        "`",
        '"',
        "{",
        "[",
        "中",
        "…",
        "A's ",
        "a\n",
        " \n",
        "a.",
        "0,",
        "```",
        "<think>",
        "é😀",
        "-_",
        "\x00\ud800",
    ]
    own = parts(pattern, flags)
    for piece in [*common, *own]:
        yield repeated(piece)
    for piece in own:
        yield repeated(piece)[:-1] + "\x01"
    for first in own[:5]:
        for second in [" ", "\n", *own[:8]]:
            if first != second:
                yield first + repeated(second)[: SIZE - len(first) - 1] + "\x01"
                yield repeated(first + second)


def repeated(piece: str) -> str:
    return (piece * (SIZE // len(piece) + 1))[:SIZE]


def parts(pattern: str, flags: int) -> list[str]:
    """The literal runs of a pattern and a character of each class, in their order, each once; of very long ones, some from all over."""
    result: dict[str, None] = {}

    def walk(tokens: Any) -> None:
        run = ""
        for operator, value in tokens:
            if operator is _constants.LITERAL:
                run += chr(value)
                continue
            if run:
                result.setdefault(run)
                run = ""
            if operator is _constants.IN:
                for kind, content in value:
                    if kind is _constants.LITERAL:
                        result.setdefault(chr(content))
                    elif kind is _constants.RANGE:
                        result.setdefault(chr(content[0]))
            elif operator is _constants.NOT_LITERAL:
                result.setdefault("b")
            for inner in value if isinstance(value, tuple | list) else [value]:
                if isinstance(inner, _parser.SubPattern):
                    walk(inner)
                elif isinstance(inner, list):
                    for branch in inner:
                        if isinstance(branch, _parser.SubPattern):
                            walk(branch)
        if run:
            result.setdefault(run)

    walk(_parser.parse(pattern, flags))
    pieces = list(result)
    return pieces if len(pieces) <= 16 else pieces[:: len(pieces) // 16 + 1]


def use(pattern: re.Pattern[str], method: str, text: str) -> None:
    if method in {"match", "fullmatch", "search"}:
        getattr(pattern, method)(text)
    elif method == "split":
        pattern.split(text)
    elif method in {"sub", "subn"}:
        pattern.sub("", text)
    else:
        for _ in pattern.finditer(text):
            pass


class TooSlow(Exception):
    pass


def stop(*_: object) -> None:
    raise TooSlow


def tried(one: Found) -> str | None:
    """What was too slow, or None."""
    pattern = re.compile(one.pattern, one.flags)
    for text in hostile(one.pattern, one.flags):
        text = text[: one.size]
        for method in one.uses:
            begun = time.process_time()
            signal.setitimer(signal.ITIMER_PROF, 1.1 * SECONDS)
            with suppress(TooSlow):
                use(pattern, method, text)
            signal.setitimer(signal.ITIMER_PROF, 0)
            if (taken := time.process_time() - begun) > SECONDS * max(one.size / SIZE, 0.05):
                return f"{one.where}: {method} of {one.pattern[:80]!r} takes more than {taken:.1f} s for {text[:12]!r}…{text[-12:]!r}"
    return None


if __name__ == "__main__":
    signal.signal(signal.SIGPROF, stop)
    if sys.argv[1:] == ["find"]:
        json.dump([asdict(one) for one in found(Path())], sys.stdout)
    else:
        for values in json.load(sys.stdin):
            print(json.dumps([values["where"], tried(Found(**values))]), flush=True)
