"""What a finished stage left on disk, as plain values, ready for any tracker. Knows no tracker and no stage by name.

dvc.lock is the source: it says with which parameters a stage ran, what it read, and the MD5 of everything it wrote. The kind of an
output follows from its place, in the root or in a pipeline's own folder: models/, logs/, transcripts/, metrics/, data/, and anything else
is a plain artifact. A record waits in the spool until it is sent, so each file has a stamp that tells whether a later run replaced it.
"""

from __future__ import annotations

import contextlib
import csv
import math
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from rlver.components.domain.files import BadFile, read_json
from rlver.components.report.panels.appraiser import CARD_FILES
from rlver.components.settings.overlays import EXTENDS
from rlver.components.settings.settings import Settings, SettingsError, load_settings
from rlver.components.users.distilled.folder import fidelity_of, folder_of
from rlver.tasks.graph.dvc import LockedStage, md5_of
from rlver.tasks.runtime.language import ENGLISH, language_of, language_of_personas
from rlver.tasks.runtime.stage import costs_file

LANGUAGE = "personas.language"  # beside the parameters, in `speaking`
KINDS = ("models", "logs", "transcripts", "metrics", "data")


class CurvePoint(NamedTuple):
    """One value of a curve."""

    name: str
    step: int
    value: float


class File(NamedTuple):
    """A file or folder of the project: where it is, its path in the project, DVC's MD5, and its stamp when the stage had ended."""

    path: Path
    name: str
    md5: str
    stamp: str = ""

    @property
    def is_unchanged(self) -> bool:
        return self.path.exists() and stamp(self.path) == self.stamp


class StageRecord(BaseModel):
    """Everything worth tracking of one stage's last run. Its curves are no part of its JSON: they are among the spool's readings.

    `command_variant`: whose settings it ran with; `speaking`: how a model that it made talks unless told otherwise, by the names of parameters.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    digest: str
    command_variant: str | None = None
    md5s: Mapping[str, str] = {}
    parameters: Mapping[str, str] = {}
    speaking: Mapping[str, str] = {}
    metrics: Mapping[str, float] = {}
    curves: tuple[CurvePoint, ...] = Field(default=(), exclude=True)
    datasets: tuple[File, ...] = ()
    datasets_read: tuple[File, ...] = ()
    transcripts: tuple[File, ...] = ()
    models: tuple[File, ...] = ()
    models_read: tuple[File, ...] = ()
    artifacts: tuple[File, ...] = ()

    FILES: ClassVar[tuple[str, ...]] = ("datasets", "datasets_read", "transcripts", "models", "models_read", "artifacts")

    @property
    def variant(self) -> str | None:
        return self.name.partition("@")[2] or None


class Revision(NamedTuple):
    """The git commit the files belong to; `dirty` when tracked files, other than those a run writes itself, differ from it."""

    commit: str
    dirty: bool


def read(root: Path, name: str, lock: Mapping[str, LockedStage]) -> StageRecord:
    """Collect the record of stage `name` of dvc.lock from its files. A file that is gone (DVC can restore it) is left out."""
    stage = lock[name]
    written = [stamped(root / path, path, md5) for path, md5 in stage.outputs.items() if (root / path).exists()]
    used = [stamped(root / path, path, md5) for path, md5 in stage.dependencies.items() if (root / path).exists()]

    def under(files: list[File], folder: str) -> tuple[File, ...]:
        return tuple(file for file in files if kind(file.name) == folder)

    metrics: dict[str, float] = {}
    scored = [file for file in under(written, "metrics") if file.path.suffix == ".json"]
    remedy = f"run `rlver run --only {name}` again"
    for file in scored:
        prefix = f"{file.path.stem}/" if len(scored) > 1 else ""
        metrics |= {prefix + quantity: value for quantity, value in flat_numbers(read_json(file.path, remedy)).items()}
    spent = [Path(path) for path in stage.outputs if (root / costs_file(Path(path))).is_file()]
    for output in spent:
        prefix = f"{output.stem}/" if len(spent) > 1 else ""
        metrics |= {prefix + quantity: value for quantity, value in flat_numbers(read_json(root / costs_file(output), remedy)).items()}
    parameters = effective_parameters(stage.parameters)
    if stage.seed is not None:
        parameters["seed"] = str(stage.seed)
    appraiser = _appraiser(root, parameters.get("simulator.appraiser", ""))
    if appraiser:
        metrics |= flat_numbers({"appraiser": fidelity_of(appraiser)})
    cards = [appraiser / name for name in CARD_FILES] if appraiser else []
    datasets_read = tuple(jsonl for file in under(used, "data") for jsonl in _jsonl(file))
    models = under(written, "models")
    return StageRecord(
        name=stage.name,
        digest=stage.digest,
        command_variant=stage.command_variant,
        md5s=stage.outputs,
        parameters=parameters,
        speaking=_speaking(root, stage.command_variant, parameters, datasets_read) if models else {},
        metrics=metrics,
        curves=tuple(point for file in under(written, "logs") for path in sorted(file.path.glob("*.csv")) for point in curve(path)),
        datasets=tuple(jsonl for file in under(written, "data") for jsonl in _jsonl(file)),
        datasets_read=datasets_read,
        transcripts=tuple(jsonl for file in under(written, "transcripts") for jsonl in _jsonl(file)),
        models=models,
        models_read=tuple(stamped(root / path, path, md5) for path, md5 in sorted(_models_behind(stage, lock).items())),
        artifacts=(
            *(file for file in written if kind(file.name) not in {"models", "transcripts", "data"}),
            *(stamped(path, f"appraiser/{path.name}", md5_of(path)) for path in cards),
        ),
    )


def settings_of(root: Path, variant: str | None) -> Settings | None:
    """The settings of a variant; params.yaml's where it has no overlay any more; None without those: the stage that reads them says what is wrong."""
    for named in (variant, None):
        with contextlib.suppress(SettingsError):
            return load_settings(root / "params.yaml", named)
    return None


def _speaking(root: Path, variant: str | None, parameters: Mapping[str, str], read: Sequence[File]) -> dict[str, str]:
    """The section `policy` and the language of the personas: of the stage where it has them, else of its variant, because a base is made without."""
    settings = settings_of(root, variant)
    others = {f"policy.{name}": str(value) for name, value in settings.policy} if settings else {}
    own = {name: value for name, value in parameters.items() if name.startswith("policy.")}
    language = ENGLISH
    with contextlib.suppress(BadFile):  # the imported personas are not here any more
        language = language_of_personas(read[0].path) if read else language_of(settings, root) if settings else ENGLISH
    return {**others, **own, LANGUAGE: language}


def stamped(path: Path, name: str, md5: str) -> File:
    return File(path, name, md5, stamp(path))


def stamp(path: Path) -> str:
    """What changes when a file or folder is written anew; empty when there is none. Nothing is read: a model may be large."""
    stats: list[os.stat_result] = []
    for one in path.rglob("*") if path.is_dir() else (path,):
        with contextlib.suppress(FileNotFoundError):  # it is gone, or it went while its folder was listed
            stats.append(one.stat())
    return f"{len(stats)} {sum(one.st_size for one in stats)} {max(one.st_mtime_ns for one in stats)}" if stats else ""


def kind(name: str) -> str | None:
    """One of KINDS, from the place of a file in the project; None for anything else."""
    return next((folder for folder in name.split("/")[:2] if folder in KINDS), None)


def effective_parameters(by_file: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """The parameters a stage ran with, flattened: params.yaml first, then the overlays over it, one that another extends before that one."""
    flat: dict[str, str] = {}
    below = {"params.yaml", *(f"params/{values[EXTENDS]}.yaml" for values in by_file.values() if EXTENDS in values)}
    for _, values in sorted(by_file.items(), key=lambda item: (item[0] != "params.yaml", item[0] not in below)):
        flat.update({name: str(value) for name, value in _leaves(values, ".")})
    return flat


def flat_numbers(value: Any) -> dict[str, float]:
    """Numbers of nested JSON by path: {"by_need": {"x": {"n": 3}}} -> {"by_need/x/n": 3.0}; a pair [lo, hi] becomes /lo and /hi."""
    return {
        metric_name(name): float(leaf)
        for name, leaf in _leaves(_pairs_named(value), "/")
        if isinstance(leaf, (int, float)) and not isinstance(leaf, bool) and abs(leaf) <= sys.float_info.max
    }


def curve(path: Path) -> Iterator[CurvePoint]:
    """The numbers of a CSV file as `<file>/<column>` over its column `step` (or else its first column)."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file)
        columns = list(rows.fieldnames or ())
        if not columns:
            return
        axis = "step" if "step" in columns else columns[0]
        for row in rows:
            step = _number(row[axis])
            if step is None or not math.isfinite(step):
                continue
            for column in columns:
                value = None if column == axis else _number(row[column])
                if value is not None:
                    yield CurvePoint(metric_name(f"{path.stem}/{column}"), int(step), value)


SOURCES = ("components", "flows", "params", "tasks")


def revision(root: Path) -> Revision | None:
    """The commit checked out in `root`; None outside git."""
    written_by_runs = (":!*dvc.lock", ":!*/dvc.yaml", ":!metrics", ":!*/metrics/*")
    commit = _git(root, "rev-parse", "HEAD")
    status = _git(root, "status", "--porcelain", "--untracked-files=no", "--", ".", *written_by_runs)
    new = _git(root, "status", "--porcelain", "--", *SOURCES)  # untracked files among them: a kind of one's own is found by its place
    return None if commit is None else Revision(commit, bool(status or new))


def _models_behind(stage: LockedStage, lock: Mapping[str, LockedStage]) -> dict[str, str]:
    """The models a stage reads, or the models that made the transcripts it reads, with their MD5s."""
    read = {path: md5 for path, md5 in stage.dependencies.items() if kind(path) == "models"}
    transcripts = {path for path in stage.dependencies if kind(path) == "transcripts"}
    for other in lock.values():
        if transcripts & set(other.outputs):
            read.update({path: md5 for path, md5 in other.dependencies.items() if kind(path) == "models"})
    return read


def _appraiser(root: Path, named: str) -> Path | None:
    """The folder of the learned appraiser that `simulator.appraiser` names; None for none, and for one that is gone."""
    folder = root / folder_of(named) if named.startswith("distilled:") else None
    return folder if folder and all((folder / name).is_file() for name in CARD_FILES) else None


def _git(root: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(("git", *arguments), cwd=root, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _jsonl(file: File) -> list[File]:
    if file.path.is_dir():
        return [stamped(path, f"{file.name}/{path.name}", md5_of(path)) for path in sorted(file.path.glob("*.jsonl"))]
    return [file] if file.path.suffix == ".jsonl" else []


def _leaves(value: Any, separator: str, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(inner, separator, f"{path}{separator}{key}" if path else str(key))
    else:
        yield path, value


def _pairs_named(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _pairs_named(inner) for key, inner in value.items()}
    if isinstance(value, list) and len(value) == 2 and all(isinstance(end, (int, float)) for end in value):
        return {"lo": value[0], "hi": value[1]}
    return value


def metric_name(name: str) -> str:
    """MLflow takes letters, digits and _-. :/ in the name of a metric or a parameter."""
    return "".join(letter if letter.isalnum() or letter in "_-. :/" else "_" for letter in name)


def _number(text: str | None) -> float | None:
    try:
        return float(text or "")
    except ValueError:
        return None
