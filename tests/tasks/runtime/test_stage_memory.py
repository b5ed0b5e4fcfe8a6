"""A stage's memory does not grow with the number of lengths that its dialogues have."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from rlver.components.policy.precision import computes_in_bfloat16

SHAPES = "ONEDNN_PRIMITIVE_CACHE_CAPACITY"
TRAINS = """
import re, sys
from rlver.tasks.runtime.stage import run_stage

def main():
    import torch
    layer = torch.nn.Linear(576, 1536)
    for tokens in range(1000, 1400):
        with torch.autocast("cpu", torch.bfloat16):
            layer(torch.zeros(tokens, 576)).sum().backward()
    print(re.search(r"RssAnon:\\s+(\\d+)", open("/proc/self/status").read()).group(1))
    return 0

sys.exit(run_stage(main))
"""


def kilobytes(**variables: str) -> int:
    """That a stage holds after products of 400 shapes."""
    surroundings = {variable: value for variable, value in os.environ.items() if variable != SHAPES}
    return int(
        subprocess.run([sys.executable, "-c", TRAINS], env=surroundings | variables, capture_output=True, text=True, check=True).stdout
    )


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="counts memory by /proc")
@pytest.mark.skipif(not computes_in_bfloat16("native"), reason="the processor multiplies no bfloat16")
def test_products_of_many_shapes_are_not_kept_for_ever() -> None:
    assert kilobytes() < 0.7 * kilobytes(**{SHAPES: "1024"})
