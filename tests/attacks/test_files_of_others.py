"""Two that write at once, and files that anybody may have written."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from file_project import SURROUNDINGS, error_of, file_project, rlver

from rlver.components.domain.files import BadFile, read_jsonl, read_yaml, write_jsonl
from rlver.components.rollout.transcripts import load_transcripts
from rlver.flows.cli import main


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return file_project(tmp_path, monkeypatch)


# Two at once.

HOLD = """
import pathlib, sys, time
from rlver.components.domain.files import alone_with
with alone_with(pathlib.Path("out.jsonl")):
    print("held", flush=True)
    time.sleep(600)
"""


def test_who_writes_is_alone_until_its_process_ends_even_by_kill_9(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rlver.components.domain.files import InUse, alone_with

    monkeypatch.chdir(tmp_path)
    holder = subprocess.Popen((sys.executable, "-c", HOLD), env=SURROUNDINGS, stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None and holder.stdout.readline() == "held\n"
    try:
        with pytest.raises(InUse, match=f"process {holder.pid} is writing out.jsonl now: wait for its end, or name another file"):
            alone_with(Path("out.jsonl")).__enter__()
    finally:
        holder.kill()
        holder.wait()
    with alone_with(Path("out.jsonl")), pytest.raises(InUse, match=f"process {os.getpid()}"):
        alone_with(Path("out.jsonl")).__enter__()
    assert list(tmp_path.iterdir()) == [], "no lock is left"


@pytest.mark.long
def test_clean_leaves_dialogues_that_are_being_held(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (toy / "out.jsonl.partial").write_text('{"fingerprint": "0"}\n')
    (toy / "scratch").mkdir()
    holder = subprocess.Popen((sys.executable, "-c", HOLD), cwd=toy, env=SURROUNDINGS, stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None and holder.stdout.readline() == "held\n"
    try:
        assert main(["clean", "--yes"]) == 1
        assert f"process {holder.pid} is writing" in capsys.readouterr().err
        assert (toy / "out.jsonl.partial").exists() and (toy / "scratch").exists()
    finally:
        holder.kill()
        holder.wait()
    assert main(["clean", "--yes"]) == 0
    assert not (toy / "out.jsonl.partial").exists()


@pytest.mark.slow
def test_two_converse_into_one_file_do_not_mix(project: Path) -> None:
    """The second ends in one line and touches nothing; after `kill -9` of the first, the same command goes on with what it had."""
    from micro import micro_model, micro_tokenizer

    from rlver.components.policy.load import save_policy

    save_policy(micro_model(scale=2.0), micro_tokenizer(), project / "micro")
    hold = ["converse", "--policy", "micro", "-o", "out.jsonl", "--personas", "data/personas/train.jsonl", "--repeats", "40"]
    first = subprocess.Popen((sys.executable, "-m", "rlver.flows.cli", *hold), cwd=project, env=SURROUNDINGS, stderr=subprocess.DEVNULL)
    partial, end = project / "out.jsonl.partial", time.monotonic() + 120
    try:
        while not partial.exists() or partial.read_bytes().count(b"\n") < 3:
            assert first.poll() is None and time.monotonic() < end
            time.sleep(0.01)
        first.send_signal(signal.SIGSTOP)
        before = partial.read_bytes()
        second = rlver(project, *hold, "--difficulty", "challenging")
        assert second.returncode == 1 and partial.read_bytes() == before and not (project / "out.jsonl").exists()
        (said,) = [line for line in second.stderr.splitlines() if line.startswith("error: ")]
        assert said == f"error: process {first.pid} is writing out.jsonl now: wait for its end, or name another file"
    finally:
        first.kill()
        first.wait()
    held = before.count(b"\n") - 1
    resumed = rlver(project, *hold)
    assert resumed.returncode == 0, resumed.stderr
    dialogues = load_transcripts(project / "out.jsonl")
    assert len(dialogues) == 640 and {dialogue.simulator.difficulty for dialogue in dialogues} == {"vanilla"} and held >= 2
    kept = {json.loads(line)["dialogue_id"]: json.loads(line) for line in before.splitlines()[1:]}
    assert kept.items() <= {one.dialogue_id: one.model_dump(mode="json") for one in dialogues}.items()
    assert not partial.exists() and not list(project.glob(".*.lock"))


# What is read may be anybody's.

BAD_LINES = {
    "deep": b"[" * 100_000,
    "deep objects": b'{"a":' * 100_000,
    "a huge integer": b'{"seed": ' + b"9" * 10_000 + b"}",
    "bytes that are not UTF-8": b'{"a": "\xff\xfe"}',
    "NUL": b'{"a": "\x00"}',
    "only NUL": b"\x00" * 100,
    "UTF-16": '{"a": 1}'.encode("utf-16"),
    "cut off": b'{"a": ',
}


@pytest.mark.parametrize(
    ("command", "bad"),
    [
        *(("score", bad) for bad in BAD_LINES),
        *((other, "deep") for other in ("compare", "verify", "portrait", "audit", "consistency")),  # they have the same reader
    ],
)
def test_a_line_that_cannot_be_read_is_named_with_its_file_and_what_to_do(
    command: str, bad: str, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = Path("t.jsonl").read_bytes().splitlines(keepends=True)[0]
    Path("bad.jsonl").write_bytes(good + BAD_LINES[bad] + b"\n")
    said = error_of(capsys, command, "bad.jsonl")
    assert "bad.jsonl:2: not valid JSON (" in said and "mend the line or take it out" in said and len(said) < 300


def test_numbers_of_metrics_that_no_tracker_holds_are_left_out() -> None:
    from rlver.tasks.tracking.records import flat_numbers

    assert flat_numbers({"huge": 10**400, "endless": float("inf"), "none": float("nan"), "pair": [1, 10**400]}) == {"pair/lo": 1.0}


def test_a_line_separator_inside_a_text_ends_no_row(tmp_path: Path) -> None:
    """JSON lines end at line feeds, and Python's `splitlines` at eight more characters."""
    from rlver.tasks.tracking import filling as datasets
    from rlver.tasks.tracking.records import File

    rows = [{"persona_id": "a", "portrait": "one\u2028two\x85three\x1cfour"}]
    write_jsonl(tmp_path / "train.jsonl", rows)
    assert datasets._data_set_rows(File(tmp_path / "train.jsonl", "data/personas/train.jsonl", "0" * 32)) == rows


@pytest.mark.parametrize("bad", BAD_LINES)
def test_metrics_that_cannot_be_read_are_named_with_what_makes_them(bad: str, tmp_path: Path) -> None:
    from rlver.tasks.tracking import results

    (tmp_path / "metrics" / "base").mkdir(parents=True)
    (tmp_path / "metrics" / "base" / "sentient.json").write_bytes(BAD_LINES[bad])
    with pytest.raises(BadFile, match=r"sentient\.json: not valid JSON \(.*; run `rlver run --only score` again"):
        results.table(tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 5000,
        "a: " + "9" * 5000,
        "a: \xff",
        "a: \x00",
        "a: 2024-99-99",
        "a: !!int x",
        "a: &b [*b]",
        "a: !!python/object:os.system x",
        "".join(f"k{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9 if n else ['x'] * 9)}]\n" for n in range(9)),
        "".join(f"k{n}: &a{n} [{f'*a{n - 1}' if n else 'x'}]\n" for n in range(2000)),
    ],
    ids=["deep", "a huge integer", "not UTF-8", "NUL", "no date", "no integer", "a loop", "code", "a billion laughs", "deep by aliases"],
)
def test_parameters_that_cannot_be_read_name_their_file(text: str, tmp_path: Path) -> None:
    path = tmp_path / "params.yaml"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(BadFile) as error:
        read_yaml(path)
    assert str(path) in str(error.value) and "\n" not in str(error.value)


def test_aliases_of_a_few_values_are_read(tmp_path: Path) -> None:
    path = tmp_path / "runs.yaml"
    path.write_text("trained: &trained {a: {seed: 7}, b: [1, 2]}\ncompared: {<<: *trained, c: 3}\nagain: *trained\n")
    assert read_yaml(path)["compared"] == {"a": {"seed": 7}, "b": [1, 2], "c": 3}


def test_a_line_that_is_a_row_is_still_read(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes('{"a": "ä你\u2028"}\r\n\n{"b": 2}'.encode())
    assert list(read_jsonl(path)) == [(1, {"a": "ä你\u2028"}), (3, {"b": 2})]
