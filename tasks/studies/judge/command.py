"""What `rlver judge` and `rlver portrait` do: transcripts to capabilities, by a judge behind the endpoint or by counting acts."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rlver.components.domain.files import write_json
from rlver.components.domain.transcript import Dialogue
from rlver.components.scoring.portrait import portrait
from rlver.components.settings.settings import Settings, load_settings
from rlver.tasks.runtime.appraisers import read_transcripts
from rlver.tasks.runtime.connections import Connection, to_judge
from rlver.tasks.runtime.progress import Steps, counted
from rlver.tasks.studies.judge.judging import JudgeParameters, Marks, judge, summary


def portraits(files: Sequence[Path], out: Path | None, params: Path) -> str:
    """The portraits of the files side by side; all of them go to `out`, by file, if it is given."""
    settings = load_settings(params)
    drawn = {
        str(file): portrait(read_transcripts(file), settings.evaluation.bootstrap_samples, settings.seed)
        for file in counted(files, "files")
    }
    if out:
        write_json(out, drawn)
    return _table(drawn)


def judged(transcripts: Path, model: str | None, out: Path | None, params: Path) -> str:
    """The marks of a judge behind the endpoint. Raises ValueError without a model, EndpointError when nothing can be asked."""
    settings = load_settings(params)
    parameters = judge_parameters(settings, model)
    dialogues = [dialogue for dialogue in read_transcripts(transcripts) if dialogue.turns and dialogue.error is None]
    connection = to_judge(settings, parameters.model)
    connection.check()
    marks = asyncio.run(_judged(connection, dialogues, parameters, settings.endpoint.concurrency))
    found = summary(dialogues, marks, parameters, settings.evaluation.bootstrap_samples, settings.seed)
    if out:
        write_json(out, found)
    print(connection.line(), file=sys.stderr)
    remark = f"\n{found['unscorable']} of {found['dialogues']} dialogues could not be judged" if found["unscorable"] else ""
    return f"{found['method']}\n{_table({str(transcripts): found})}{remark}"


def judge_parameters(settings: Settings, model: str | None) -> JudgeParameters:
    numbers = settings.judge.model_dump(exclude={"model"})
    named = model or settings.judge.model
    if named is None:
        raise ValueError("no model judges: name one of the endpoint with --model, or as judge.model in params.yaml")
    return JudgeParameters(model=named, **numbers)


async def _judged(
    connection: Connection, dialogues: Sequence[Dialogue], parameters: JudgeParameters, concurrency: int
) -> dict[str, Marks | str]:
    async with connection as endpoint:
        return await judge(endpoint, dialogues, parameters, concurrency, Steps(len(dialogues), "dialogues judged").step)


def _table(drawn: Mapping[str, Mapping[str, Any]]) -> str:
    """A row for each quantity, a column for each file; what is unknown is a dash, and its reason stands below."""
    rows: dict[str, dict[str, str]] = {}
    reasons: dict[str, dict[str, None]] = {}
    for file, one in drawn.items():
        for name, quantity in _quantities(one):
            rows.setdefault(name, {})[file] = _cell(quantity)
            if "reason" in quantity:
                reasons.setdefault(quantity["reason"], {})[name] = None
    lines = [f"| | {' | '.join(drawn)} |", "|---" * (len(drawn) + 1) + "|"]
    lines += [f"| {name} | {' | '.join(cells.get(file, '–') for file in drawn)} |" for name, cells in rows.items()]
    notes = [f"–: {reason} ({', '.join(names)})" for reason, names in reasons.items()]
    return "\n".join([*lines, *(["", *notes] if notes else [])])


def _quantities(one: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    strategies = one.get("strategies", {})
    return [
        *one["capabilities"].items(),
        ("structured to creative", one["cognition"]["x"]),
        ("solution to emotion", one["cognition"]["y"]),
        *((f"{name}: {what}", used[what]) for name, used in strategies.items() for what in ("frequency", "contribution")),
        *one.get("acceptance", {}).items(),
        *one.get("behaviour", {}).items(),
    ]


def _cell(quantity: Mapping[str, Any]) -> str:
    if quantity["value"] is None:
        return "–"
    low, high = quantity["ci95"]
    return f"{quantity['value']:.2f} [{low:.2f}, {high:.2f}]"
