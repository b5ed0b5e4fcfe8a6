"""The options that several commands share, each said once; and what is common to all commands that have one of them.

`--out` is looked at before the work begins, and says in the help, by its metavar, what it may be.
"""

from __future__ import annotations

import functools
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

from rlver.components.domain.files import STANDARD_OUTPUT, BadFile, target_of
from rlver.tasks.runtime.environment import limit_endpoints as limit_endpoints

FILE = "FILE"
FILE_OR_STREAM = "FILE|-"  # `-`: standard output, and what is said otherwise goes to standard error
FOLDER = "FOLDER"
ANY = "PATH"


def out(help: str, kind: str = FILE) -> Any:
    """The option --out of a command; `kind` is one of the above."""
    return typer.Option("--out", "-o", metavar=kind, help=help)


PARAMS = Path("params.yaml")
TEST_PERSONAS = Path("data/personas/test.jsonl")
TRAIN_PERSONAS = Path("data/personas/train.jsonl")  # the held-out personas of a training are among them

Params = Annotated[Path, typer.Option("--params", help="The parameter file.")]
ParamsAndOverlays = Annotated[Path, typer.Option("--params", help="The parameter file; overlays are beside it in params/.")]
Variant = Annotated[str | None, typer.Option("--variant", help="Overlay params/<variant>.yaml.")]
Personas = Annotated[Path, typer.Option("--personas", help="The personas file (JSONL).")]
OfDialogues = Annotated[
    Path | None, typer.Option("--personas", help="The personas file, for classes and scenarios. [data/personas/test.jsonl, if it is there]")
]
Difficulty = Annotated[str | None, typer.Option("--difficulty", help="How demanding the users are: vanilla or challenging.")]
FiguresOut = Annotated[Path | None, out("Also write all figures to this JSON file.", FILE_OR_STREAM)]
Budget = Annotated[
    float | None, typer.Option("--budget", metavar="MONEY", min=0, help="Stop before the calls to a chat endpoint could cost more in all.")
]
Port = Annotated[int, typer.Option("--port", min=0, max=65535, help="Another free one is taken if it is in use.")]
Replay = Annotated[bool, typer.Option("--replay", help="Take the answers of chat endpoints from those stored; ask nobody.")]


class NothingKept(Exception):
    """Ctrl-C in a command that keeps nothing of what it had done; the message says so."""


@contextmanager
def keeping_no_dialogue(answers: Path | None = None) -> Iterator[None]:
    """Around the dialogues of a command that keeps none: Ctrl-C says so. `answers`: of a model's server, with all that was sent there.

    Raises NothingKept.
    """
    try:
        yield
    except KeyboardInterrupt:
        if answers is not None:
            raise NothingKept(f"it begins anew; what was said is kept with the model's answers in {answers}") from None
        raise NothingKept("no dialogue of this command is kept, so it begins anew") from None


def refuse_twice(files: Sequence[Path]) -> None:
    """Raise ValueError where two of the files that are to be put together, or beside each other, are one."""
    for number, one in enumerate(files):
        for other in files[:number]:
            if one == other or (one.exists() and other.exists() and one.samefile(other)):
                raise ValueError(f"{other} and {one} are the same file: name each once" if one != other else f"{one} is named twice")


def split(values: list[str] | None, need: str) -> list[str] | None:
    """`--x a --x b` and `--x a,b` are the same. Raises ValueError, with what is in `need`, where only empty names are given."""
    names = [part for value in values for part in value.split(",") if part] if values else None
    if names == []:  # as of a shell variable that is not set: it must not stand for everything
        raise ValueError(f"{need}, got an empty one")
    return names


def simulator_commands(app: typer.Typer) -> typer.Typer:
    """The group `rlver simulator …`, which several studies share; the first who asks mounts it."""
    for group in app.registered_groups:
        if group.name == "simulator" and group.typer_instance is not None:
            return group.typer_instance
    made = typer.Typer(no_args_is_help=True, help="Examine the simulated users.", rich_markup_mode=None)
    app.add_typer(made, name="simulator")
    return made


def by_default(word: str) -> type[TyperGroup]:
    """A group whose command `word` is meant where none is named."""

    class ByDefault(TyperGroup):
        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            if args and args[0] not in self.commands and args[0] != "--help":
                args = [word, *args]
            return super().parse_args(ctx, args)

    return ByDefault


class OnceCommand(TyperCommand):
    """An option of one value stands once: of two, the second would silently replace the first."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        _, _, given = self.make_parser(ctx).parse_args(args=list(args))
        for option, times in Counter(one for one in given if isinstance(one, TyperOption)).items():
            if times > 1 and not (option.multiple or option.is_flag):
                raise typer.BadParameter("stands more than once, and takes one value", ctx=ctx, param=option)
        return super().parse_args(ctx, args)


def check_all(group: typer.Typer) -> None:
    """Let every command of `group`, however deep, look at its --out first, say what it returns, and refuse an option that stands twice."""
    for command in group.registered_commands:
        command.cls = OnceCommand
        if command.callback is not None:
            command.callback = _checked(command.callback)
    for inner in group.registered_groups:
        if inner.typer_instance is not None:
            check_all(inner.typer_instance)


def check(out: Path, kind: str, others: Mapping[str, Any]) -> None:
    """Raise BadFile where `out` cannot be written as what it is, or is one of the files among the `others`, which the command reads."""
    if out == STANDARD_OUTPUT:
        if kind != FILE_OR_STREAM:
            raise BadFile(f"-o -: this command cannot write to standard output; name a {'folder' if kind == FOLDER else 'file'}")
        return
    if kind == FOLDER:
        if out.exists() and not out.is_dir():
            raise BadFile(f"{out} is a file, and a folder is to be written; name another")
    elif not (kind == ANY and out.is_dir()):
        target_of(out)
        if out.suffix == ".gz":
            raise BadFile(f"{out}: files are written plain, and this name promises a packed one; leave .gz out")
    _refuse_unwritable(out, Path(os.path.realpath(out)) if kind == FOLDER or out.is_dir() else target_of(out))
    for name, path in _files(others):
        if (out.is_file() and path.is_file() and out.samefile(path)) or (name == "out" and out.absolute() == path.absolute()):
            raise BadFile(f"{out} is read too ({name}): writing would replace it; name another file with -o")


def _refuse_unwritable(out: Path, target: Path) -> None:
    """Before the work, and not after it: raise BadFile where nothing can be put into the folder that `target` is or will be in."""
    folder = next(one for one in (target, *target.parents) if one.is_dir())
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise BadFile(f"{out}: nothing can be written into {folder} ({error.strerror}); name another place") from error


def _checked(callback: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(callback)
    def run(**values: Any) -> None:
        out = values.get("out")
        if out is not None and "out" in callback.__annotations__:
            (option,) = get_type_hints(callback, include_extras=True)["out"].__metadata__
            check(out, option.metavar, {name: value for name, value in values.items() if name != "out"})
        with redirect_stdout(sys.stderr) if out == STANDARD_OUTPUT else nullcontext():
            if isinstance(told := callback(**values), str):
                typer.echo(told)

    return run


def _files(values: Mapping[str, Any]) -> Iterator[tuple[str, Path]]:
    """The files that the values name: of variants their transcripts and logs, of policies those of their folders. What is read unless another is
    named: the test personas, and of --base the base's transcripts."""
    for name, value in values.items():
        if name == "personas" and value is None:
            yield name, TEST_PERSONAS
        if name == "base" and value is None:
            yield name, Path("transcripts") / "base.jsonl"
        if name == "policy" and isinstance(value, str):
            yield from ((name, file) for file in Path(value).glob("*"))
        for path in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(path, Path):
                yield name, path
                yield name, Path("transcripts") / f"{path}.jsonl"
                yield name, Path("logs") / path / "train.jsonl"
