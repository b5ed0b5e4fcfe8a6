"""What a report is made of, read from the folders of the graph. A variant is whatever has a transcript file.

Metrics are read, never computed again; but metrics that do not belong to the transcripts beside them are refused, because a page that
mixes two runs looks exactly like one that does not. Only `material_of` makes a report from transcripts alone: it computes the scores from
the dialogues, and nothing else is known.
"""

from __future__ import annotations

import csv
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import pandera.pandas as pa
from jinja2 import TemplateError
from pandera.typing import Series

from rlver.components.ability.noninferiority import with_items
from rlver.components.domain.files import BadFile, read_json
from rlver.components.domain.tables import listed, number, table_faults
from rlver.components.domain.transcript import Dialogue, SimulatorTag
from rlver.components.personas.profiles import CLASS_OF
from rlver.components.rollout.transcripts import load_transcripts
from rlver.components.scoring.portrait import portrait
from rlver.components.scoring.sentient import sentient_metrics
from rlver.components.scoring.units import Sampling

_CLASS_FIELD = "character"  # of a recorded SAGE dialogue


def material_of(
    paths: Sequence[Path],
    base: str | None,
    classes: Mapping[str, str],
    how: Sampling,
) -> Material:
    """One variant a file, named after it; `base` is the name of the one that the others are paired with (default: "base" if it is there).

    Raises BadFile for a broken file, two files of one name or an unknown base; ValueError for dialogues that cannot be compared.
    """
    repeated = [name for name, count in Counter(map(_policy, paths)).items() if count > 1]
    if repeated:
        raise BadFile(f"two transcript files are called {', '.join(repeated)}: a policy is named after its file, so rename one")
    dialogues = {_policy(path): tuple(load_transcripts(path)) for path in paths}
    if base is not None and base not in dialogues:
        raise BadFile(f"--base {base}: no such policy here; there are {', '.join(sorted(dialogues))}")
    base = base or (BASE if BASE in dialogues else None)
    known = {**_recorded_classes(dialogues), **classes}

    def scored(name: str) -> dict[str, dict[str, object]]:
        """The scores of one policy; none when none of its dialogues can be scored."""
        if all(dialogue.emotion_final is None for dialogue in dialogues[name]):
            return {}
        has_base = base is not None and name != base and any(one.emotion_final is not None for one in dialogues[base])
        beside = dialogues[base] if base is not None and has_base else None
        metrics = sentient_metrics(dialogues[name], beside, how, classes=known)
        return {"sentient": {**metrics, "portrait": portrait(dialogues[name], how)}}

    return Material(
        tuple(
            Variant(name, name == base, dialogues[name], scored(name), None, None)
            for name in sorted(dialogues, key=lambda name: (name != base, name))
        ),
        known,
    )


def _policy(path: Path) -> str:
    """Whom a transcript file, plain or packed, is named after."""
    return Path(path.name.removesuffix(".gz")).stem


def _recorded_classes(dialogues: Mapping[str, tuple[Dialogue, ...]]) -> dict[str, str]:
    """Persona classes that an imported record names."""
    originals = ((dialogue.persona_id, dialogue.original) for group in dialogues.values() for dialogue in group)
    words = {persona: str(record[_CLASS_FIELD]) for persona, record in originals if record and record.get(_CLASS_FIELD)}
    return {persona: str(CLASS_OF.get(word, word)) for persona, word in words.items()}


Checkpoints = Mapping[int, Sequence[Dialogue]]  # by training step


def load_checkpoints(folder: Path) -> Checkpoints:
    """The held-out dialogues that a training kept in <folder>/<step>.jsonl, steps rising; step 0 is the base before any update.

    Empty without the folder. Raises BadFile for a file named otherwise.
    """
    files = sorted(folder.glob("*.jsonl"))
    wrong = next((file for file in files if not file.stem.isdecimal()), None)
    if wrong is not None:
        raise BadFile(f"{wrong}: held-out dialogues are kept in <step>.jsonl")
    return {int(file.stem): load_transcripts(file) for file in sorted(files, key=lambda file: int(file.stem))}


BASE = "base"


class CurveTable(pa.DataFrameModel):
    """The known columns of logs/<variant>/train.csv and evaluation.csv."""

    step: Series[pd.Float64Dtype] = number(0)
    emotion_mean: Series[pd.Float64Dtype] = number(0, 100, nullable=True)
    success_rate: Series[pd.Float64Dtype] = number(0, 1, nullable=True)
    failure_rate: Series[pd.Float64Dtype] = number(0, 1, nullable=True)
    right_act_rate: Series[pd.Float64Dtype] = number(0, 1, nullable=True)
    one_act_rate: Series[pd.Float64Dtype] = number(0, 1, nullable=True)
    reply_tokens: Series[pd.Float64Dtype] = number(0, nullable=True)
    entropy: Series[pd.Float64Dtype] = pa.Field(nullable=True)
    kl: Series[pd.Float64Dtype] = pa.Field(nullable=True)
    grad_norm: Series[pd.Float64Dtype] = number(0, nullable=True)
    seconds: Series[pd.Float64Dtype] = number(0, nullable=True)


STEP, *COLUMNS = CurveTable.to_schema().columns


@dataclass(frozen=True)
class Curve:
    """Columns over steps, steps rising; a quantity that was not logged at a step is NaN there, one never logged is absent."""

    steps: tuple[float, ...]
    columns: Mapping[str, tuple[float, ...]]


@dataclass(frozen=True)
class Variant:
    """One policy. `metrics` are all objects of metrics/<name>/<kind>.json by kind: a new kind needs no change here.

    A kind is absent, a curve None, and there are no checkpoints where the stage has not run (the base is never trained).
    """

    name: str
    is_base: bool
    dialogues: tuple[Dialogue, ...]
    metrics: Mapping[str, Mapping[str, Any]]
    training: Curve | None
    held_out: Curve | None
    checkpoints: Checkpoints = field(default_factory=dict)

    @property
    def sentient(self) -> Mapping[str, Any] | None:
        return self.metrics.get("sentient")

    @property
    def general(self) -> Mapping[str, Any] | None:
        return self.metrics.get("general")


@dataclass(frozen=True)
class Material:
    """All variants, the base first, the others by name. `classes` are persona classes by persona id, as far as they are known; `shared` is
    what was measured of several variants together, by kind."""

    variants: tuple[Variant, ...]
    classes: Mapping[str, str]
    shared: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def base(self) -> Variant | None:
        return next((variant for variant in self.variants if variant.is_base), None)

    @property
    def numbered(self) -> tuple[tuple[int, Variant], ...]:
        """Each variant with its place among the colours: the base, if there is one, has 0, the others count from 1."""
        first = 0 if self.base else 1
        return tuple(enumerate(self.variants, first))

    @property
    def featured(self) -> Variant | None:
        """The trained variant with the highest mean final emotion, the first by name among equals; None without one."""
        scored = [(v.sentient["emotion_mean"], v) for v in self.variants if not v.is_base and v.sentient is not None]
        return max(scored, key=lambda pair: pair[0])[1] if scored else None

    @property
    def simulators(self) -> tuple[SimulatorTag, ...]:
        tags = {(d.simulator.kind, d.simulator.difficulty, d.simulator.version): d.simulator for v in self.variants for d in v.dialogues}
        return tuple(tags[key] for key in sorted(tags))


def load_material(transcripts: Path, metrics: Path, logs: Path, classes: Mapping[str, str] | None = None, base: str = BASE) -> Material:
    """Read everything there is; `base` is the name of the variant that the others are compared with.

    Raises BadFile, in one line, for a missing folder, a broken file, or metrics of other transcripts.
    """
    paths = sorted(transcripts.glob("*.jsonl"), key=lambda path: (path.stem != base, path.stem))
    if not paths:
        raise BadFile(f"{transcripts}: no transcripts (*.jsonl) there; run converse first")
    return Material(tuple(_load_variant(path, metrics / path.stem, logs / path.stem, path.stem == base) for path in paths), classes or {})


def _load_variant(path: Path, metrics: Path, logs: Path, is_base: bool) -> Variant:
    dialogues = tuple(load_transcripts(path))
    kinds = {file.stem: found for file in sorted(metrics.glob("*.json")) if (found := read_object(file)) is not None}
    if general := kinds.get("general"):
        kinds["general"] = with_items(general, metrics / "general.json")
    if (sentient := kinds.get("sentient")) is not None:
        check_belongs(metrics / "sentient.json", sentient, path, dialogues)
    return Variant(
        name=path.stem,
        is_base=is_base,
        dialogues=dialogues,
        metrics=kinds,
        training=read_curve(logs / "train.csv"),
        held_out=read_curve(logs / "evaluation.csv"),
        checkpoints=load_checkpoints(logs / "held_out"),
    )


def read_object(path: Path) -> Mapping[str, Any] | None:
    """The JSON object in `path`; None without the file. Raises BadFile."""
    if not path.is_file():
        return None
    value = read_json(path, "run its stage again")
    if not isinstance(value, dict):
        raise BadFile(f"{path}: expected a JSON object, got {type(value).__name__}")
    return value


@contextmanager
def known_shapes() -> Iterator[None]:
    """Metrics are drawn as their stages write them, and not checked one by one. Raises BadFile for what is of another shape."""
    try:
        yield
    except BadFile:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, AssertionError, TemplateError) as error:
        raise BadFile(
            f"the metrics (metrics/, or the file of --robustness) are not of the shape that their stages write ({type(error).__name__}: {error}); "
            "run score and benchmark again, or look with --debug which one it is"
        ) from error


def check_belongs(path: Path, sentient: Mapping[str, Any], transcripts: Path, dialogues: tuple[Dialogue, ...]) -> None:
    """Raises BadFile unless the metrics are those of these dialogues."""
    finals = [d.emotion_final for d in dialogues if d.emotion_final is not None]
    mean = math.fsum(finals) / len(finals) if finals else math.nan
    try:
        n, recorded = sentient["n"], float(sentient["emotion_mean"])
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise BadFile(f"{path}: it lacks n and emotion_mean; run score again") from error
    if n != len(dialogues) or not math.isclose(recorded, mean, abs_tol=1e-4):
        raise BadFile(
            f"{path}: it says {n} dialogues with mean emotion {recorded:.2f}, "
            f"but {transcripts} has {len(dialogues)} with {mean:.2f}; run score again"
        )


def read_curve(path: Path) -> Curve | None:
    """The known columns of a training log; None without the file or without rows. Of a step logged twice (resume) the later row counts."""
    if not path.is_file():
        return None
    read = _curve_rows(path)
    if faults := table_faults(CurveTable, [row for _, row in read]):
        raise BadFile(listed(path, [line for line, _ in read], faults))
    rows = {row[STEP]: {name: value for name, value in row.items() if value is not None} for _, row in read}
    if not rows:
        return None
    steps = tuple(sorted(rows))
    columns = {name: tuple(rows[step].get(name, math.nan) for step in steps) for name in COLUMNS}
    return Curve(steps, {name: values for name, values in columns.items() if not all(math.isnan(value) for value in values)})


def _curve_rows(path: Path) -> list[tuple[int, dict[str, Any]]]:
    """Line and known cells of each row: numbers where they are some, else the text itself, None where nothing was logged."""
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        try:
            return [(reader.line_num, {name: _cell(row.get(name)) for name in (STEP, *COLUMNS)}) for row in reader]
        except (UnicodeDecodeError, csv.Error) as error:
            raise BadFile(f"{path}:{reader.line_num}: not a table in UTF-8 ({error})") from error


def _cell(cell: str | None) -> float | str | None:
    if not cell:
        return None
    try:
        value = float(cell)
    except ValueError:
        return cell
    return None if math.isnan(value) else value
