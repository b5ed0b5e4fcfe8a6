"""Each promise of SECURITY.md names a test that is there and that pytest runs."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

NAMED = re.compile(r"`(tests/[\w/]+\.py(?:::\w+)?)`")


def lines(root: Path) -> list[str]:
    """The promises, and the rows of what listens."""
    reached, _, rest = (root / "SECURITY.md").read_text(encoding="utf-8").partition("## What is promised")
    promises = [line for line in rest.partition("## What is not protected")[0].splitlines() if line.startswith("- ")]
    rows = [line for line in reached.splitlines() if line.startswith("| ") and ("127.0.0.1" in line or "loopback" in line)]
    assert len(promises) >= 15 and len(rows) >= 6
    return [*promises, *rows]


@cache
def functions_of(file: Path) -> frozenset[str]:
    """The functions of a file that pytest takes for tests."""
    if not file.is_file():
        return frozenset()
    body = ast.parse(file.read_text(encoding="utf-8")).body
    return frozenset(node.name for node in body if isinstance(node, ast.FunctionDef) and node.name.startswith("test"))


def test_each_promise_names_tests_that_are_there(repository_root: Path) -> None:
    for line in lines(repository_root):
        named = NAMED.findall(line)
        assert named, f"names no test: {line}"
        for one in named:
            file, _, name = one.partition("::")
            found = functions_of(repository_root / file)
            assert name in found if name else found, f"{one} is no test: {line}"


@pytest.mark.slow
def test_pytest_collects_each_test_that_a_promise_names(repository_root: Path) -> None:
    """A file that is skipped as a whole, or whose tests are all deselected by a mark that no command runs, holds nothing."""
    named = sorted({one for line in lines(repository_root) for one in NAMED.findall(line)})
    marks = "not live and not gpu"  # what CI and `make slow` run together
    command = (sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-o", "addopts=", "--collect-only", "-q", "-m", marks, *named)
    done = subprocess.run(command, cwd=repository_root, env=dict(os.environ), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    collected = {line.partition("[")[0] for line in done.stdout.splitlines() if "::" in line}
    missing = [one for one in named if not any(test == one or test.startswith(f"{one}::") for test in collected)]
    assert len(named) > 20 and missing == []
