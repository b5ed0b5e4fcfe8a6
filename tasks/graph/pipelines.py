"""Pipelines that run by name: what is offered (`paper/pipeline.yaml`), and the part of it that is DVC's (`paper/dvc.yaml`).

A stage becomes DVC's when somebody asks for it. Were all of them DVC's from the start, `dvc pull`, `status` and `metrics show` would stumble,
in every clone, over hundreds of stages that never ran. An offered pipeline is written as any dvc.yaml; a whole one can be had by copying it.
"""

from __future__ import annotations

import fcntl
import io
import itertools
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ruamel.yaml import YAML

from rlver.components.domain.files import read_yaml, write_text_atomically

if TYPE_CHECKING:
    from dvc.repo import Repo
    from dvc.repo.index import Index

OFFERED, ASKED_FOR = "pipeline.yaml", "dvc.yaml"
_HEAD = f"# Written by rlver: the stages of {OFFERED} that were asked for. It belongs into git, beside dvc.lock.\n"


def ask_for(root: Path, names: Iterable[str]) -> None:
    """Make these stages (`recipes/dvc.yaml:train@…`) DVC's, beside those that are already. Other names are left alone."""
    wanted = set(names)
    for offered in sorted(root.glob(f"*/{OFFERED}")):
        asked_for = offered.with_name(ASKED_FOR)
        if new := _of_file(asked_for, root, wanted):
            with offered.open(encoding="utf-8") as held:
                fcntl.flock(held, fcntl.LOCK_EX)  # of two that ask at once, the second knows what the first asked for
                _write(asked_for, offered, new)


def renew(root: Path, names: Iterable[str] = ()) -> None:
    """Write what was asked for before as it is offered now, so that DVC sees what has changed in it.

    A pipeline that offers less is left alone, unless stages of it are among `names`, which are to be asked for: that forgets what is not offered.
    """
    wanted = set(names)
    for offered in sorted(root.glob(f"*/{OFFERED}")):
        if (asked_for := offered.with_name(ASKED_FOR)).is_file():
            with offered.open(encoding="utf-8") as held:
                fcntl.flock(held, fcntl.LOCK_EX)
                before, now = (_names(read_yaml(file), offered.parent) for file in (asked_for, offered))
                if before <= now or _of_file(asked_for, root, wanted):
                    _write(asked_for, offered, set())


def _of_file(asked_for: Path, root: Path, names: Iterable[str]) -> set[str]:
    """Those of these stages that are of this pipeline, as it names them itself."""
    prefix = f"{asked_for.relative_to(root).as_posix()}:"
    return {name.removeprefix(prefix) for name in names if name.startswith(prefix)}


def _write(asked_for: Path, offered: Path, new: set[str]) -> None:
    """What was asked for before and what is `new`, unless it stands there."""
    before = _names(read_yaml(asked_for), offered.parent) if asked_for.is_file() else set()
    text = io.StringIO(_HEAD)
    text.seek(0, io.SEEK_END)
    writer = YAML(typ="safe")
    writer.default_flow_style = False
    writer.width = 10_000
    writer.dump(_part(read_yaml(offered), offered.parent, new | before), text)
    if not asked_for.is_file() or asked_for.read_text(encoding="utf-8") != text.getvalue():
        write_text_atomically(asked_for, text.getvalue())


def whole(repo: Repo) -> Index:
    """DVC's index with everything that is offered in the place of what was asked for."""
    from dvc.dvcfile import ProjectFile
    from dvc.repo.index import Index

    offered = sorted(Path(repo.root_dir).glob(f"*/{OFFERED}"))
    replaced = {str(path.with_name(ASKED_FOR)) for path in offered}
    stages = [stage for stage in repo.index.stages if stage.path not in replaced]
    for path in offered:
        stages.extend(ProjectFile(repo, str(path), False).stages.values())
    return Index(repo, stages=stages)


def address(name: str) -> str:
    """The name under which DVC runs an offered stage."""
    pipeline, colon, stage = name.rpartition(":")
    return f"{pipeline.removesuffix(OFFERED)}{ASKED_FOR}:{stage}" if pipeline.endswith(f"/{OFFERED}") else f"{pipeline}{colon}{stage}"


def _part(pipeline: Mapping[str, Any], folder: Path, wanted: set[str]) -> dict[str, Any]:
    """The pipeline with these stages only. A stage of many is kept as it is written if all are wanted, else it names its own."""
    stages: dict[str, Any] = {}
    for group, stage in pipeline["stages"].items():
        items = _items(stage, pipeline, folder)
        if items is None:
            if group in wanted:
                stages[group] = stage
            continue
        kept = {key: item for key, item in items.items() if f"{group}@{key}" in wanted}
        if len(kept) == len(items):
            stages[group] = stage
        elif kept:
            body = stage["do"] if "foreach" in stage else {name: value for name, value in stage.items() if name != "matrix"}
            stages[group] = {"foreach": kept, "do": body}
    return {**pipeline, "stages": stages}


def _names(pipeline: Mapping[str, Any], folder: Path) -> set[str]:
    """The names of all stages of a file."""
    groups = ((group, _items(stage, pipeline, folder)) for group, stage in (pipeline.get("stages") or {}).items())
    return {name for group, items in groups for name in ([group] if items is None else [f"{group}@{key}" for key in items])}


def _items(stage: Mapping[str, Any], pipeline: Mapping[str, Any], folder: Path) -> dict[str, Any] | None:
    """The items of a `foreach` or a `matrix` by the names that DVC gives them; None for a stage that is one."""
    known: dict[str, Any] = {}
    for part in pipeline.get("vars", ()):
        known |= part if isinstance(part, Mapping) else read_yaml(folder / part)

    def value(written: Any) -> Any:
        return known[written[2:-1]] if isinstance(written, str) and written.startswith("${") else written

    if "foreach" in stage:
        items = value(stage["foreach"])
        return dict(items) if isinstance(items, Mapping) else {str(item): item for item in items}
    if "matrix" in stage:
        axes = {axis: value(values) for axis, values in stage["matrix"].items()}
        return {"-".join(map(str, chosen)): dict(zip(axes, chosen, strict=True)) for chosen in itertools.product(*axes.values())}
    return None
