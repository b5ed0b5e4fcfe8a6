"""HumanEval and MBPP answers: the code of a reply, and the task's tests, each a program of its own: a trial.

Both sets are asked as chat, without examples, and scored by one greedy answer (pass@1; Chen et al. 2021, Austin et al. 2021).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from components.evaluation.packs.sandbox import Trial

HUMANEVAL_HUB, MBPP_HUB = "openai/openai_humaneval", "google-research-datasets/mbpp"
HUMANEVAL_FIELDS, MBPP_FIELDS = ("prompt", "test", "entry_point"), ("text", "test_list")
HUMANEVAL_PROMPT = "Write the body of this Python function. Answer with the whole function in one code block.\n\n```python\n{prompt}```"
MBPP_PROMPT = "{text}\n\nThe Python code must pass these tests:\n\n```python\n{tests}\n```\n\nAnswer with the code in one code block."
_BLOCK = re.compile(r"```([^\n`]*+)\n(.*?)(?:```|\Z)", re.DOTALL)  # label, code; nothing in it is tried twice


def code_of(reply: str, wanted: str = "") -> str:
    """The last code block with `wanted` in it, else the last block, else the whole reply. A block that was cut off counts as it is."""
    found = [(label.lstrip(" \t").rstrip(" \t\r").lower(), block) for label, block in (match.groups() for match in _BLOCK.finditer(reply)) if block.strip()]
    blocks = [block for label, block in found if not label or label.startswith("py")] or [block for _, block in found]
    fitting = [block for block in blocks if wanted in block]
    return (fitting or blocks or [reply])[-1]


def humaneval_question(row: Mapping[str, Any]) -> str:
    return HUMANEVAL_PROMPT.format(prompt=row["prompt"])


def humaneval_program(row: Mapping[str, Any], reply: str) -> Trial:
    """The task's own text first: it holds imports and helpers, and its function with nothing but a docstring is good Python. A whole
    function in the reply replaces that one; anything else continues it. The tests get the helpers from the task, not from the reply."""
    name = row["entry_point"]
    code = code_of(reply, f"def {name}")
    joint = "\n\n" if f"def {name}" in code else ""
    return Trial(f"{row['prompt']}{joint}{code}\n", tests=f"{row['test']}\n\ncheck({name})\n", given=f"{row['prompt']}\n\ndel {name}\n")


def mbpp_question(row: Mapping[str, Any]) -> str:
    return MBPP_PROMPT.format(text=row["text"], tests="\n".join(row["test_list"]))


def mbpp_program(row: Mapping[str, Any], reply: str) -> Trial:
    set_up = row.get("test_setup_code") or ""
    return Trial(code_of(reply), tests="\n\n".join([set_up, "\n".join(row["test_list"])]) + "\n")
