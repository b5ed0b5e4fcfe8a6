"""The stages of the graph: one module is one DVC stage, run as `python -m tasks.stages.<name>`. No Prefect here."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable


def run_stage(main: Callable[[], int]) -> int:
    """Run a stage's main: foreseeable errors become one readable line and exit status 1, Ctrl-C becomes 130."""
    try:
        return main()
    except KeyboardInterrupt:
        print("interrupted: what was finished is kept; run the same command again to go on", file=sys.stderr)
        return 130
    except (ValueError, OSError, RuntimeError) as error:
        if os.environ.get("RLVER_DEBUG") == "1":
            traceback.print_exc()
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        return 1
