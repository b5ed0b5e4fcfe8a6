"""The stages of the graph: one module is one DVC stage, run as `python -m tasks.stages.<name>`. No Prefect here."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable

from components.endpoint.chat import EndpointUnavailable
from components.printable import one_line
from tasks import environment, processes
from tasks.terminal import printable_output

TEMPORARY_FAILURE = 75  # EX_TEMPFAIL of sysexits.h
DISK_FULL = ("No space left on device", "inline_container.cc")  # the second is PyTorch's writer, which does not say why it failed


def run_stage(main: Callable[[], int]) -> int:
    """Run a stage's main: foreseeable errors become one readable line and exit status 1, Ctrl-C and SIGTERM become 130.

    75 says that the same command may succeed later, because a service did not answer; `rlver run` then tries again.
    """
    with printable_output():
        return _run(main)


def _run(main: Callable[[], int]) -> int:
    try:
        with processes.terminated_like_interrupted():
            return main()
    except KeyboardInterrupt:
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
