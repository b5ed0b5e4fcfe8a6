"""The page of every command and option, read from the typer application itself."""

from __future__ import annotations

from typing import Any

import typer

from rlver.flows.cli import app


def page() -> str:
    lines = ["# Command line", "", "Made from the program when this site was built; `rlver COMMAND --help` says the same.", ""]
    for words, command in _commands(("rlver",), typer.main.get_command(app)):
        lines += _section(words, command)
    return "\n".join(lines)


def _commands(words: tuple[str, ...], command: Any) -> list[tuple[tuple[str, ...], Any]]:
    """The command and everything below it, in the order of --help; a group comes before its members."""
    found = [(words, command)]
    for name, inner in getattr(command, "commands", {}).items():
        if not inner.hidden:
            found += _commands((*words, name), inner)
    return found


def _section(words: tuple[str, ...], command: Any) -> list[str]:
    arguments = [parameter for parameter in command.params if parameter.param_type_name == "argument"]
    options = [parameter for parameter in command.params if parameter.param_type_name == "option"]
    usage = [*words, *(["[OPTIONS]"] if options else []), *(["COMMAND …"] if hasattr(command, "commands") else []), *map(_name, arguments)]
    lines = [f"{'#' * min(len(words) + 1, 3)} {' '.join(words)}", "", command.help or "", "", "```", " ".join(usage), "```", ""]
    if arguments or options:
        lines += ["| | | default |", "|---|---|---|"]
        lines += [_row(_name(argument), argument) for argument in arguments]
        lines += [_row(_spelling(option), option) for option in options]
        lines.append("")
    return lines


def _name(argument: Any) -> str:
    name = argument.metavar or argument.name.upper()
    return name if argument.required else f"[{name}]"


def _spelling(option: Any) -> str:
    names = ", ".join([*option.opts, *option.secondary_opts])
    return names if getattr(option, "is_flag", False) else f"{names} {option.metavar or option.name.upper()}"


def _row(name: str, parameter: Any) -> str:
    if parameter.required:
        default = "required"
    elif parameter.default in (None, False, ()):
        default = ""
    else:
        default = f"`{getattr(parameter.default, 'value', parameter.default)}`"
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in (f"`{name}`", parameter.help or "", default)) + " |"
