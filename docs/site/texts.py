"""The texts that an expression of the code can become: read, never run.

A name is looked up where it is bound in the function around it, then among the texts at the top of the modules; a call in what the functions of
that name return. So a message is found where it is built, also where that is in two parts. What an `except … as error` holds is another's.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, cast

BUILTIN = frozenset(name for name, one in vars(builtins).items() if isinstance(one, type) and issubclass(one, BaseException))
_FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef
NAMESAKES = 8  # a name of more functions says too little about which one is called
# What these are given, and what they return, is not said to a user.
NO_TEXT = {
    "execute",
    "get",
    "split",
    "partition",
    "of",
    "read",
    "name",
    "line",
    "appraiser",
    "users",
    "english_only",
    "background_of",
    "names",
}
HOPS = 3  # from an error to a name, to what a function returns, to a name in there


class Scope(NamedTuple):
    """Where an expression stands: its module, and the outermost function around it."""

    place: str
    function: ast.FunctionDef | ast.AsyncFunctionDef | None


class Text(NamedTuple):
    text: str
    place: str


class Program:
    """Modules read together, by their place: classes of errors, texts at the top of a module, functions, and what is bound in each of them."""

    def __init__(self, modules: Mapping[str, str]) -> None:
        self.trees = {place: ast.parse(source) for place, source in modules.items()}
        self.functions: dict[str, list[tuple[Scope, ast.FunctionDef | ast.AsyncFunctionDef]]] = {}
        self.constants: dict[str, tuple[Scope, ast.expr]] = {}
        self.built: dict[str, list[tuple[ast.expr, Scope]]] = {}  # by class: what it gives the class above, of its own texts
        self._bound: dict[tuple[str, int | None], dict[str, list[ast.expr]]] = {}
        self._speaking: list[tuple[ast.AST, Scope]] = []
        self._read: dict[Hashable, list[Text]] = {}
        bases: dict[str, set[str]] = {}
        for place, tree in self.trees.items():
            self._enter(tree, Scope(place, None), bases)
        self.errors = set(BUILTIN)
        while more := {one for one, above in bases.items() if above & self.errors} - self.errors:
            self.errors |= more

    @classmethod
    def of(cls, root: Path, layers: tuple[str, ...]) -> Program:
        paths = [path for layer in layers for path in sorted((root / layer).rglob("*.py"))]
        return cls({path.relative_to(root).as_posix(): path.read_text(encoding="utf-8") for path in paths})

    def walk(self) -> Iterator[tuple[ast.AST, Scope]]:
        """What can say something: each `raise`, call and function, and what is named with a type."""
        yield from self._speaking

    def messages(self, node: ast.expr, scope: Scope) -> Iterator[Text]:
        """Those texts that say something: two words or more."""
        yield from (one for one in self._texts(node, scope, HOPS) if is_message(one.text))

    def returned_by(self, name: str) -> Iterator[Text]:
        """What a function of this name returns, or what a class of it says by itself."""
        yield from (one for one in self._returned(name, HOPS) if is_message(one.text))
        for part, scope in self.built.get(name, ()):
            yield from self.messages(part, scope)

    def _enter(self, node: ast.AST, scope: Scope, bases: dict[str, set[str]]) -> None:
        if isinstance(node, ast.Raise | ast.Call | ast.AnnAssign | ast.FunctionDef):
            self._speaking.append((node, scope))
        if isinstance(node, ast.ClassDef):
            self.built[node.name] = [
                (part, Scope(scope.place, made)) for made in node.body if isinstance(made, ast.FunctionDef) for part in _to_super(made)
            ]
            bases[node.name] = {name_of(base) for base in node.bases}
        if isinstance(node, _FUNCTION):
            scope = scope if scope.function else Scope(scope.place, node)
            self.functions.setdefault(node.name, []).append((scope, node))
        bound = self._bound.setdefault(self._key(scope), {})
        for name, value in _bindings(node):
            (self._bound.setdefault((scope.place, None), {}) if name.startswith("self.") else bound).setdefault(name, []).append(value)
            if scope.function is None and isinstance(value, ast.Constant | ast.JoinedStr):
                self.constants[name] = (scope, value)
        for child in ast.iter_child_nodes(node):
            self._enter(child, scope, bases)

    def _texts(self, node: ast.expr, scope: Scope, hops: int) -> Iterator[Text]:
        match node:
            case ast.Constant(value=str(text)):
                yield Text(text, scope.place)
            case ast.JoinedStr(values=values):
                text = "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in values)
                yield Text(text, scope.place)
                for (
                    part
                ) in values:  # what is filled in: a text that is returned or named; where nothing else is said, also what was made before
                    if isinstance(part, ast.FormattedValue) and (not is_message(text) or self._is_made_elsewhere(part.value)):
                        yield from self._texts(part.value, scope, hops)
            case ast.IfExp(body=body, orelse=otherwise):
                yield from self._texts(body, scope, hops)
                yield from self._texts(otherwise, scope, hops)
            case ast.Name(id=name):
                yield from self._named(name, scope, hops)
            case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.BoolOp(values=parts) | ast.Dict(values=parts):
                for part in parts:
                    yield from self._texts(part, scope, hops)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                yield from self._texts(left, scope, hops)
                yield from self._texts(right, scope, hops)
            case ast.ListComp(elt=part) | ast.GeneratorExp(elt=part) | ast.DictComp(value=part):
                yield from self._texts(part, scope, hops)
            case ast.Starred(value=part) | ast.Subscript(value=part) | ast.Await(value=part) | ast.NamedExpr(value=part):
                yield from self._texts(part, scope, hops)
            case ast.Attribute(value=ast.Name(id="self"), attr=name) if f"self.{name}" in self._bound[scope.place, None]:
                yield from self._once(
                    (scope.place, name, hops), [(value, scope) for value in self._bound[scope.place, None][f"self.{name}"]]
                )
            case ast.Attribute(attr=name) if name not in NO_TEXT and any(
                _is_property(function) for _, function in self.functions.get(name, ())
            ):
                yield from self._returned(name, hops)
            case ast.Call(func=function, args=arguments):
                if isinstance(function, ast.Attribute):  # f"…".replace(…)
                    yield from self._texts(function.value, scope, hops)
                for part in arguments:
                    if name_of(function) not in NO_TEXT and (
                        not isinstance(part, ast.Name) or part.id in self.constants or name_of(function) == "join"
                    ):
                        yield from self._texts(part, scope, hops)
                yield from self._returned(name_of(function), hops)

    def _named(self, name: str, scope: Scope, hops: int) -> Iterator[Text]:
        if values := self._bound[self._key(scope)].get(name):
            yield from self._once((*self._key(scope), name, hops), [(value, scope) for value in values])
        elif name in self.constants:
            where, value = self.constants[name]
            yield from self._once((name, None, hops), [(value, where)])

    def _returned(self, name: str, hops: int) -> Iterator[Text]:
        if name not in NO_TEXT and len(self.functions.get(name, ())) <= NAMESAKES:
            yield from self._once((name, hops), [(value, scope) for scope, one in self.functions.get(name, ()) for value in returned(one)])

    def _once(self, key: tuple[Hashable, ...], values: Sequence[tuple[ast.expr, Scope]]) -> Sequence[Text]:
        """Read once and kept; nothing within itself, and nothing farther than HOPS."""
        hops = cast(int, key[-1])
        if key not in self._read:
            self._read[key] = []
            if hops:
                self._read[key] = list(dict.fromkeys(text for value, scope in values for text in self._texts(value, scope, hops - 1)))
        return self._read[key]

    @staticmethod
    def _key(scope: Scope) -> tuple[str, int | None]:
        return scope.place, id(scope.function) if scope.function else None

    def _is_made_elsewhere(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Call) or (isinstance(node, ast.Name) and node.id in self.constants)


def returned(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.expr]:
    for one in ast.walk(function):
        if isinstance(one, ast.Return | ast.Yield | ast.YieldFrom) and one.value is not None:
            yield one.value


def _to_super(function: ast.FunctionDef) -> Iterator[ast.expr]:
    for one in ast.walk(function):
        if isinstance(one, ast.Call) and ast.unparse(one.func) == "super().__init__":
            yield from one.args


def is_message(text: str) -> bool:
    return len(re.findall(r"[^\W\d_]{2,}", text)) > 1 and " " in text


def name_of(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _bindings(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    match node:
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                yield from _bound(target, value)
        case ast.AnnAssign(target=target, value=ast.expr() as value) | ast.NamedExpr(target=target, value=value):
            yield from _bound(target, value)
        case ast.AugAssign(target=target, value=value) | ast.For(target=target, iter=value) | ast.comprehension(target=target, iter=value):
            yield from _bound(target, value)
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append" | "extend"), args=[value]):
            yield name, value


def _bound(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    match target, value:
        case ast.Tuple(elts=names), ast.Tuple(elts=values) if len(names) == len(values):
            for name, one in zip(names, values, strict=True):
                yield from _bound(name, one)
        case ast.Tuple(elts=names), _:
            for name in names:
                yield from _bound(name, value)
        case ast.Name(id=name), _:
            yield name, value
        case ast.Attribute(value=ast.Name(id="self"), attr=name), _:
            yield f"self.{name}", value


def _is_property(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(name_of(one) in {"property", "cached_property"} for one in function.decorator_list)
