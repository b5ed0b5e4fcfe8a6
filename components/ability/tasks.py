"""Our benchmark tasks: what the task folder of lm-eval (`harness/`) asks, and the names that it has them by.

`rlver_tiny_likelihood` and `rlver_tiny_choice` read the shipped small-world items. `rlver_math500`, `rlver_humaneval` and `rlver_mbpp` read
their sets from the hub, or from a local file in the hub's format with a colon and its name: `rlver_math500:<file>.jsonl`.
`rlver_math500:sample` is a shipped sample. Plain `lm_eval` gets the file as --metadata '{"source": "<file>.jsonl"}'.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nltk
from datasets import Dataset, load_dataset

from rlver.components.ability import answers, sandbox
from rlver.components.domain.files import BadFile, read_jsonl

FOLDER = Path(__file__).parent / "harness"
_RUN_CODE = {"rlver_humaneval", "rlver_mbpp"}
_WITH_SOURCE = {"rlver_math500", *_RUN_CODE}
OURS = {"rlver_tiny_likelihood", "rlver_tiny_choice", *_WITH_SOURCE}


def is_ours(name: str) -> bool:
    """Whether `name` is one of ours; those with a set on the hub take another source after a colon."""
    task, colon, _ = name.partition(":")
    return task in OURS and (not colon or task in _WITH_SOURCE)


def runs_code(name: str) -> bool:
    """Whether scoring the task runs what the model wrote."""
    return name.partition(":")[0] in _RUN_CODE


def lacking(name: str) -> str | None:
    """What must be fetched by hand before the task runs. The task itself says "Downloaded" even when its download failed."""
    if name == "ifeval":
        try:
            nltk.data.find("tokenizers/punkt_tab")
        except LookupError:
            return (
                "task ifeval needs data of nltk: run `python -m nltk.downloader punkt_tab`, or set NLTK_DATA to the folder that holds them"
            )
    return None


def math500_rows(source: str = "", **_: Any) -> dict[str, Dataset]:
    """Problems and answers. Raises BadFile, in one line, where they cannot be had; so do the other sets."""
    if source == "sample":
        rows = answers.load_problems(answers.SAMPLE)
    elif source.endswith(".jsonl"):
        rows = answers.load_problems(Path(source))
    else:
        rows = [{"problem": row["problem"], "answer": row["answer"]} for row in _hub("rlver_math500", source or answers.HUB_DATASET)]
    return {"test": Dataset.from_list(rows)}


def math500_question(row: dict[str, Any]) -> str:
    return answers.PROMPT.format(problem=row["problem"])


def math500_score(row: dict[str, Any], results: list[str]) -> dict[str, float]:
    return {"exact_match": float(answers.is_right(results[0], row["answer"]))}


def humaneval_rows(source: str = "", **_: Any) -> dict[str, Dataset]:
    return _coding_rows("rlver_humaneval", source, answers.HUMANEVAL_HUB, None, answers.HUMANEVAL_FIELDS)


def humaneval_question(row: dict[str, Any]) -> str:
    return answers.humaneval_question(row)


def humaneval_score(row: dict[str, Any], results: list[str]) -> dict[str, float]:
    return {"pass@1": float(sandbox.ends_well(answers.humaneval_program(row, results[0])))}


def mbpp_rows(source: str = "", **_: Any) -> dict[str, Dataset]:
    return _coding_rows("rlver_mbpp", source, answers.MBPP_HUB, "full", answers.MBPP_FIELDS)


def mbpp_question(row: dict[str, Any]) -> str:
    return answers.mbpp_question(row)


def mbpp_score(row: dict[str, Any], results: list[str]) -> dict[str, float]:
    return {"pass@1": float(sandbox.ends_well(answers.mbpp_program(row, results[0])))}


def _coding_rows(task: str, source: str, hub: str, subset: str | None, fields: tuple[str, ...]) -> dict[str, Dataset]:
    sandbox.make_sure()
    if not source.endswith(".jsonl"):
        return {"test": Dataset.from_list([dict(row) for row in _hub(task, source or hub, subset)])}
    rows = []
    for line, row in read_jsonl(Path(source)):
        if missing := [field for field in fields if not row.get(field)]:
            raise BadFile(f"{source}:{line}: {task} needs the field {missing[0]}")
        rows.append(row)
    return {"test": Dataset.from_list(rows)}


def _hub(task: str, name: str, subset: str | None = None) -> Any:
    try:
        return load_dataset(name, subset, split="test")
    except (OSError, ValueError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:300]
        raise BadFile(f"{task} needs the network or a local file (task {task}:<file>.jsonl): {reason}") from error
