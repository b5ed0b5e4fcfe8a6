"""The `rlver` command. Thin: a command parses its options, imports what it needs and calls it, so that --help answers at once.

Errors are one readable line and a non-zero exit; `--debug`, anywhere on the line, adds the traceback. What is common to all commands is
done here, so that none can forget it: what they print is printable, and where they write is looked at before they begin.
"""

from __future__ import annotations

import pkgutil
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Annotated

import typer

from rlver.components.domain.printable import one_line
from rlver.components.domain.registry import STUDIES
from rlver.flows import commands as flows
from rlver.tasks import studies
from rlver.tasks.commands import chat, dialogues, licences, personas, policies, reports, scores, serve, upkeep, verification, workspace
from rlver.tasks.runtime import environment, installed, options, processes
from rlver.tasks.runtime.sealed_record import counted
from rlver.tasks.runtime.terminal import printable_output

INTERRUPTED = 130

app = typer.Typer(
    name="rlver",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"max_content_width": 140},
    help="Train and evaluate empathetic dialogue models by reinforcement learning from verifiable emotion rewards.",
)


def _say_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"rlver {installed.version('rlver')}")
        raise typer.Exit


@app.callback()
def globally(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[bool, typer.Option("--version", help="Show the version and leave.", callback=_say_version, is_eager=True)] = False,
) -> None:
    if debug:
        environment.set_debug()


for commands in (workspace, flows, reports, dialogues, verification, chat, scores, personas, policies, serve, upkeep, licences):
    commands.register(app)
for room in pkgutil.iter_modules(studies.__path__, f"{studies.__name__}."):
    if find_spec(f"{room.name}.command"):  # a study mounts its commands itself
        import_module(f"{room.name}.command").register(app)
for study in STUDIES.names():  # of other packages; a broken one must not take the other commands with it
    try:
        STUDIES.load(study)(app)
    except Exception as error:
        print(f"warning: {one_line(str(error))}", file=sys.stderr)
options.check_all(app)
_GROUPS = {group.name for group in app.registered_groups}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status: 0, 1 for an error, 2 for wrong usage, 130 for Ctrl-C."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if "--debug" in arguments:
        arguments = ["--debug", *(argument for argument in arguments if argument != "--debug")]
    with printable_output():
        return _run(arguments)


def _run(arguments: list[str]) -> int:
    told = "what was finished is kept; run the same command again to go on"
    try:
        with processes.terminated_like_interrupted(), counted(f"rlver {_command(arguments)}"):
            status = app(arguments, prog_name="rlver", standalone_mode=False)
    except (KeyboardInterrupt, typer.Abort):
        processes.interrupt_is_handled()
        status = INTERRUPTED
    except options.NothingKept as stopped:
        processes.interrupt_is_handled()
        status, told = INTERRUPTED, str(stopped)
    except typer.Exit as ended:
        status = ended.exit_code
    except Exception as error:  # the last line of defence: what a command did not foresee is still one line
        return _explain(error)
    if status == INTERRUPTED:
        print(f"interrupted: {told}", file=sys.stderr)
    return status if isinstance(status, int) else 0


def _command(arguments: list[str]) -> str:
    """`score`, `personas import`: what was asked for, without what follows."""
    words = [one for one in arguments if not one.startswith("-")]
    is_group = bool(words) and words[0] in _GROUPS
    return " ".join(words[: 2 if is_group else 1])


def _explain(error: Exception) -> int:
    if hasattr(error, "exit_code") and hasattr(error, "show"):  # wrong usage, as typer reports it
        error.show()
        return int(error.exit_code)
    if environment.debug():
        traceback.print_exception(error)
    if absent := installed.missing(error):
        print(f"error: {absent}", file=sys.stderr)
        return 1
    foreseen = isinstance(error, (ValueError, OSError, RuntimeError))
    message = one_line(str(error)) or type(error).__name__
    print(f"error: {message}" if foreseen else f"error: {type(error).__name__}: {message} (a bug; --debug shows where)", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
