"""No text of a model, a server or a file makes a regular expression, or a loop beside one, take more than time in its length."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

TRIES = Path(__file__).parent / "patterns.py"
READS = Path(__file__).parent / "readers.py"
AT_ONCE = 12  # patterns a process


def child(root: Path, script: Path, *words: str, given: str = "", seconds: float) -> str:
    """What a process says. It is ended when its time is over: a pattern that hangs fails here, and is the one after the last that is named."""
    command = (sys.executable, str(script), *words)
    environment = {**os.environ, "PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"}
    try:
        done = subprocess.run(command, cwd=root, env=environment, input=given, capture_output=True, text=True, check=False, timeout=seconds)
    except subprocess.TimeoutExpired as error:
        raise AssertionError(f"{script.name} hangs after {(error.stdout or b'').decode()[-300:]!r}") from None
    assert done.returncode == 0, done.stderr
    return done.stdout


def slow(root: Path, patterns: Sequence[dict[str, Any]]) -> list[str]:
    said = child(root, TRIES, "try", given=json.dumps(patterns), seconds=240)
    results = [json.loads(line) for line in said.splitlines()]
    assert len(results) == len(patterns)
    return [problem for _, problem in results if problem]


@pytest.mark.slow
def test_every_pattern_reads_hostile_text_in_time(repository_root: Path) -> None:
    """100 KB of each of dozens of strings, some made of the pattern's own parts: at most 1 s."""
    patterns = json.loads(child(repository_root, TRIES, "find", seconds=240))
    assert len(patterns) > 150
    assert [problem for at in range(0, len(patterns), AT_ONCE) for problem in slow(repository_root, patterns[at : at + AT_ONCE])] == []


BACKTRACK = [r"```[ \t]*([^\n`]*?)[ \t\r]*\n", r"\s+OR\s+", r"^\s*-", r"(?:a|aa)+$", "<a>.*?</a>", r"\b(?:he|she)\b.*\balso\b"]


@pytest.mark.slow
def test_patterns_that_backtrack_would_be_seen(repository_root: Path) -> None:
    """A test that finds nothing proves nothing."""
    patterns = [{"where": pattern, "pattern": pattern, "flags": 8, "uses": ["finditer"]} for pattern in BACKTRACK]
    assert len(slow(repository_root, patterns)) == len(BACKTRACK)


@pytest.mark.long
def test_a_new_pattern_is_found_or_refused(tmp_path: Path, repository_root: Path) -> None:
    """By the scan of the source: nobody has to put it on a list."""
    for package in ("components", "tasks", "flows"):
        (tmp_path / package).mkdir()
    new = tmp_path / "components" / "new.py"
    script = f"import sys; sys.path[:0] = [{str(TRIES.parent)!r}]; import pathlib, patterns; print(patterns.found(pathlib.Path({str(tmp_path)!r})))"

    def scanned() -> subprocess.CompletedProcess[str]:
        command = (sys.executable, "-c", script)
        return subprocess.run(command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": f"{tmp_path}:{repository_root}"}, capture_output=True, text=True, check=False)  # fmt: skip

    new.write_text("import re\n_A = re.compile('a+$', re.I)\n\n\ndef f(text):\n    return _A.search(text) or re.split('b', text)\n")
    said = scanned()
    assert "pattern='a+$', flags=2, uses=('search',)" in said.stdout and "pattern='b', flags=0, uses=('split',)" in said.stdout, said
    new.write_text("import re\n\n\ndef f(text, word):\n    return re.search(word + '$', text)\n")
    (tmp_path / "components" / "__init__.py").touch()
    assert "a pattern that is put together in a function needs an example in BUILT" in scanned().stderr
    new.write_text("from re import search\n")
    assert "write `import re`" in scanned().stderr


FELL = ["code_of", "code_of with a label", "is_right", "scene_parts", "scene_parts of blank lines", "labelled", "shape", "quoted", "label of an answer", "licence", "grade"]  # fmt: skip


@pytest.mark.long
def test_what_took_the_square_or_the_cube_of_the_length_takes_its_length(repository_root: Path) -> None:
    assert child(repository_root, READS, "fell", seconds=240).splitlines() == [*FELL, "read in time"]


@pytest.mark.slow
def test_whoever_reads_foreign_text_is_in_time(repository_root: Path) -> None:
    """Whole functions, for the loops that are no patterns."""
    assert child(repository_root, READS, "everything", seconds=400) == "read in time\n"
