"""What is installed of `rlver`: its version, its code, and the extra of the package that a room needs.

A workspace (`rlver init`) has no components/ and no tasks/ that its graph could depend on. In their place stands one file, CODE, with the
version and a digest of the installed code, and the other packages that bring kinds: after an upgrade every stage is out of date. The checkout
has no such file and needs none.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from functools import cache
from importlib.metadata import version as version
from pathlib import Path
from types import TracebackType

import rlver
from rlver.components.domain.files import files_in, write_text_atomically
from rlver.components.domain.registry import packages

PACKAGE = Path(str(rlver.__file__)).parent
CODE = Path("code.json")

# By extra, the rooms in which everything loads at once with it. The longest name that fits counts.
EXTRAS = {
    "blind": ("tasks.studies.blind",),
    "distil": ("tasks.studies.distil",),
    "distilled": ("components.replay", "components.users.distilled", "tasks.commands.dialogues", "tasks.runtime.verification"),
    "eval": ("components.ability", "tasks.studies.judge", "tasks.studies.robustness"),
    "heard": ("components.users.heard",),
    "llm": ("components.endpoint", "components.users.llm", "tasks.studies.authoring"),
    "openenv": ("components.adapters.openenv",),
    "personas": ("components.domain.tables", "components.personas.schema", "tasks.commands.personas"),
    "pipeline": (
        "flows.deployments",
        "flows.evaluate",
        "flows.promote",
        "flows.reproduce",
        "flows.sweep",
        "tasks.commands.clean",
        "tasks.commands.doctor",
        "tasks.graph",
        "tasks.stages",
        "tasks.studies.audit",
        "tasks.tracking",
    ),
    "report": (
        "components.report",
        "tasks.commands.reports",
        "tasks.commands.scores",
        "tasks.runtime.boards",
        "tasks.studies.consistency",
        "tasks.studies.paper",
    ),
    "score": ("components.scoring", "tasks.studies.acts"),
    "serve": ("tasks.runtime.chat_server", "tasks.runtime.guard", "tasks.runtime.web"),
    "train": ("components.policy", "components.training", "tasks.runtime.serving", "tasks.studies.hearing.adapting"),
    "verifiers": ("components.adapters.verifiers",),
    "verl": ("components.adapters.verl", "components.adapters.verl_dataset"),
}
EXTRA_OF = {f"rlver.{room}": extra for extra, rooms in EXTRAS.items() for room in rooms}


def extra_of(module: str) -> str | None:
    """The extra of the room that a module lies in."""
    names = (module.rsplit(".", count)[0] if count else module for count in range(module.count(".") + 1))
    return next((EXTRA_OF[name] for name in names if name in EXTRA_OF), None)


def missing(error: BaseException) -> str | None:
    """What to install, in one line, if the error is a library that an extra would have brought."""
    if not isinstance(error, ModuleNotFoundError) or (error.name or "rlver").partition(".")[0] == "rlver":
        return None
    wanted = next((extra for module in _modules(error.__traceback__) if (extra := extra_of(module))), "pipeline")
    return f"needs the extra {wanted}: pip install 'rlver[{wanted}]' (there is no {error.name})"


def _modules(trace: TracebackType | None) -> Iterator[str]:
    """The modules that an error went through, the outermost first: it stands for what was asked for."""
    while trace:
        yield trace.tb_frame.f_globals.get("__name__", "")
        trace = trace.tb_next


def refresh(root: Path) -> None:
    """Bring a workspace's CODE up to date; a project without one is a checkout."""
    if (root / CODE).is_file() and (root / CODE).read_text(encoding="utf-8") != code():
        write_text_atomically(root / CODE, code())


@cache
def code() -> str:
    """What belongs into CODE."""
    digest = hashlib.sha256()
    for path in sorted(path for room in ("components", "tasks") for path in files_in(PACKAGE / room)):
        digest.update(path.relative_to(PACKAGE).as_posix().encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    others = {"packages": found} if (found := packages()) else {}
    return json.dumps({"rlver": version("rlver"), "digest": digest.hexdigest()[:12]} | others) + "\n"
