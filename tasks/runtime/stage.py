"""How the main of a stage is run, whichever it is: its errors as one line, its exit status, its memory, and what its calls to chat endpoints came to."""

from __future__ import annotations

import ctypes
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from rlver.components.domain.files import write_json
from rlver.components.domain.printable import one_line
from rlver.components.endpoint.chat import EndpointUnavailable
from rlver.tasks.runtime import environment, processes
from rlver.tasks.runtime.sealed_record import counted
from rlver.tasks.runtime.terminal import printable_output

TEMPORARY_FAILURE = 75  # EX_TEMPFAIL of sysexits.h
DISK_FULL = ("No space left on device", "inline_container.cc")  # the second is PyTorch's writer, which does not say why it failed


def run_stage(main: Callable[[], int]) -> int:
    """Run a stage's main: foreseeable errors become one readable line and exit status 1; Ctrl-C, SIGTERM and SIGHUP become 130.

    75 says that the same command may succeed later, because a service did not answer; `rlver run` then tries again.
    """
    environment.settle()
    with printable_output():
        return _run(main)


def _run(main: Callable[[], int]) -> int:
    try:
        with processes.terminated_like_interrupted(), counted(f"stage {Path(sys.argv[0]).stem}"):
            return main()
    except KeyboardInterrupt:
        processes.interrupt_is_handled()
        print("interrupted: what was finished is kept; run the same command again to go on", file=sys.stderr)
        return 130
    except Exception as error:
        said = one_line(str(error))
        full = any(words in said for words in DISK_FULL)  # tokenizers and safetensors raise what is none of the three below
        if not full and not isinstance(error, (ValueError, OSError, RuntimeError)):
            raise
        if environment.debug():
            traceback.print_exc()
        print(f"error: {said}{'; is the disk full? make room, then run the same command again' if full else ''}", file=sys.stderr)
        return TEMPORARY_FAILURE if isinstance(error, (ConnectionError, TimeoutError, EndpointUnavailable)) else 1


def give_back_memory() -> None:
    """Give freed memory back to the system. glibc keeps it, in pieces of the last sizes, which the next lengths of dialogues do not fit; others do it unasked."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)


COSTS = Path("answers") / "costs"


class Counted(Protocol):
    def summary(self) -> dict[str, float]: ...


def costs_file(output: Path) -> Path:
    """Of the run that made `output`, a path in the project."""
    return COSTS / f"{output.relative_to(output.anchor)}.json"


def write_costs(output: Path, user: Counted | None) -> None:
    """Write the sums of the connection to the user's models; without one, take away what an earlier run left."""
    if user is not None:
        write_json(costs_file(output), {"user": user.summary()})
    else:
        costs_file(output).unlink(missing_ok=True)
