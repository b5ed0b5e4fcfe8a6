r"""Our benchmark tasks: what the task folder of lm-eval (`harness/`) asks, the names that it has them by, and how answers are read.

`rlver_tiny_likelihood` and `rlver_tiny_choice` read the shipped small-world items. `rlver_math500`, `rlver_humaneval` and `rlver_mbpp` read
their sets from the hub, or from a local file in the hub's format with a colon and its name: `rlver_math500:<file>.jsonl`.
`rlver_math500:sample` is a shipped sample. Plain `lm_eval` gets the file as --metadata '{"source": "<file>.jsonl"}'.

MATH500: the last \boxed{...} of a reply, compared by value with math-verify: 0.5 is 1/2. The harness' own task for this set reads the text
between dollar signs and so measures format. HumanEval and MBPP: the code of a reply, and the task's tests, each a program of its own.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nltk
from datasets import Dataset, load_dataset
from math_verify import LatexExtractionConfig, parse, verify

from rlver.components.ability import sandbox
from rlver.components.ability.sandbox import Trial
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


SAMPLE = Path(__file__).parent / "math_sample.jsonl"
_MATH_PROMPT = "Solve the problem step by step. End with the final answer in \\boxed{{}}.\n\n{problem}"
MOST_CHARACTERS = 500  # of an answer; the longest of MATH500 has 53
TIMEOUT_S = 3  # for 9^(9^9) and the like
DIGITS = 12  # of decimals: 0.333333 is not 1/3
_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{")


def math500_rows(source: str = "", **_: Any) -> dict[str, Dataset]:
    """Problems and answers. Raises BadFile, in one line, where they cannot be had; so do the other sets."""
    if source == "sample" or source.endswith(".jsonl"):
        rows = load_problems(SAMPLE if source == "sample" else Path(source))
    else:
        rows = [{"problem": row["problem"], "answer": row["answer"]} for row in _hub("rlver_math500", source or "HuggingFaceH4/MATH-500")]
    return {"test": Dataset.from_list(rows)}


def math500_question(row: dict[str, Any]) -> str:
    return _MATH_PROMPT.format(problem=row["problem"])


def math500_score(row: dict[str, Any], results: list[str]) -> dict[str, float]:
    return {"exact_match": float(is_right(results[0], row["answer"]))}


def last_boxed(reply: str) -> str | None:
    r"""The content of the last \boxed{...} (or \fbox), braces balanced, `\{` and `\}` being text.

    None without a box, and None when the last one is cut off: an unfinished answer is not the one before it.
    """
    starts = list(_BOX.finditer(reply))
    if not starts:
        return None
    begin = starts[-1].end()
    depth = 1
    position = begin
    while position < len(reply):
        character = reply[position]
        if character == "\\":
            position += 2
            continue
        depth += {"{": 1, "}": -1}.get(character, 0)
        if depth == 0:
            return reply[begin:position]
        position += 1
    return None


def is_right(reply: str, answer: str) -> bool:
    """Whether the reply's last box holds a value equal to this answer. No box is wrong, and so is one that takes seconds to work out.

    math-verify stops itself with a signal, so this is for the main thread.
    """
    boxed = last_boxed(reply)
    if boxed is None or len(boxed) > MOST_CHARACTERS:
        return False
    expected, given = (
        parse(f"\\boxed{{{_without_unit_signs(text)}}}", [LatexExtractionConfig()], parsing_timeout=TIMEOUT_S) for text in (answer, boxed)
    )
    return bool(verify(expected, given, float_rounding=DIGITS, timeout_seconds=TIMEOUT_S))


def _without_unit_signs(text: str) -> str:
    """Without the full stop of a sentence and the sign of per cent, which answers have or leave out."""
    return re.sub(r"\\?%", "", text).strip().rstrip(".")


def load_problems(path: Path) -> list[dict[str, str]]:
    """Rows `problem`, `answer` of a JSONL file; other fields are left out. Raises BadFile with file and line."""
    problems = []
    for number, row in read_jsonl(path):
        if not isinstance(row.get("problem"), str) or not isinstance(row.get("answer"), str):
            raise BadFile(f"{path}:{number}: a math problem needs the texts problem and answer")
        problems.append({"problem": row["problem"], "answer": row["answer"]})
    if not problems:
        raise BadFile(f"{path}: no problems in the file; name another")
    return problems


_HUMANEVAL_PROMPT = "Write the body of this Python function. Answer with the whole function in one code block.\n\n```python\n{prompt}```"
_MBPP_PROMPT = "{text}\n\nThe Python code must pass these tests:\n\n```python\n{tests}\n```\n\nAnswer with the code in one code block."
_BLOCK = re.compile(r"```([^\n`]*+)\n(.*?)(?:```|\Z)", re.DOTALL)  # label, code; nothing in it is tried twice


def humaneval_rows(source: str = "", **_: Any) -> dict[str, Dataset]:
    """Raises BadFile, also for a prompt that is no Python by itself: no answer to it would ever be right."""
    rows = _coding_rows("rlver_humaneval", source, "openai/openai_humaneval", None, ("prompt", "test", "entry_point"))
    for number, row in enumerate(rows["test"], start=1):
        try:
            ast.parse(f"{row['prompt']}\n")
        except (SyntaxError, ValueError) as error:
            raise BadFile(
                f"{source or 'openai/openai_humaneval'}:{number}: the prompt is no Python by itself ({error}); give its function a docstring"
            ) from error
    return rows


def humaneval_question(row: Mapping[str, Any]) -> str:
    return _HUMANEVAL_PROMPT.format(prompt=row["prompt"])


def humaneval_program(row: Mapping[str, Any], reply: str) -> Trial:
    """The task's own text first: it holds imports and helpers, and its function with nothing but a docstring is good Python. A whole
    function in the reply replaces that one; anything else continues it. The tests get the helpers from the task, not from the reply."""
    name = row["entry_point"]
    its_function = rf"\bdef {re.escape(name)}\b"
    code = code_of(reply, its_function)
    joint = "\n\n" if re.search(its_function, code) else ""
    return Trial(f"{row['prompt']}{joint}{code}\n", tests=f"{row['test']}\n\ncheck({name})\n", given=f"{row['prompt']}\n\ndel {name}\n")


def humaneval_score(row: dict[str, Any], results: list[str]) -> dict[str, float]:
    return {"pass@1": float(sandbox.ends_well(humaneval_program(row, results[0])))}


def mbpp_rows(source: str = "", **_: Any) -> dict[str, Dataset]:
    return _coding_rows("rlver_mbpp", source, "google-research-datasets/mbpp", "full", ("text", "test_list"))


def mbpp_question(row: Mapping[str, Any]) -> str:
    return _MBPP_PROMPT.format(text=row["text"], tests="\n".join(row["test_list"]))


def mbpp_program(row: Mapping[str, Any], reply: str) -> Trial:
    set_up = row.get("test_setup_code") or ""
    return Trial(code_of(reply), tests="\n\n".join([set_up, "\n".join(row["test_list"])]) + "\n")


def mbpp_score(row: dict[str, Any], results: list[str]) -> dict[str, float]:
    return {"pass@1": float(sandbox.ends_well(mbpp_program(row, results[0])))}


def code_of(reply: str, wanted: str = "") -> str:
    """The last code block in which the pattern `wanted` is found, else the last block, else the whole reply.

    A block that was cut off counts as it is.
    """
    found = [
        (label.lstrip(" \t").rstrip(" \t\r").lower(), block)
        for label, block in (match.groups() for match in _BLOCK.finditer(reply))
        if block.strip()
    ]
    blocks = [block for label, block in found if not label or label.startswith("py")] or [block for _, block in found]
    fitting = [block for block in blocks if re.search(wanted, block)]
    return (fitting or blocks or [reply])[-1]


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
