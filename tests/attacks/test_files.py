"""What is written where, by whom, and what is read: links, devices, two at once, inputs as outputs, and files that are anybody's."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import click
import pytest
import typer
from fakes import people, scripted_dialogues
from ruamel.yaml import YAML

from rlver.components.domain.files import BadFile, read_jsonl, read_yaml, write_json, write_jsonl, write_text_atomically
from rlver.components.rollout.transcripts import load_transcripts
from rlver.flows.cli import app, main

REPOSITORY = Path(__file__).parents[2]
SURROUNDINGS = {**os.environ, "PYTHONPATH": str(REPOSITORY)}


def error_of(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """The one line that a command says when it fails."""
    assert main([str(argument) for argument in arguments]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ") and "(a bug;" not in line, line
    return line


def rlver(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = (sys.executable, "-m", "rlver.flows.cli", *arguments)
    return subprocess.run(command, cwd=folder, env=SURROUNDINGS, capture_output=True, text=True, check=False)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Transcripts, recorded dialogues, personas and short parameters; the current directory."""
    values = YAML(typ="safe").load((REPOSITORY / "params.yaml").read_text(encoding="utf-8"))
    for section, changes in {
        "simulator": {"max_turns": 3},
        "policy": {"thinking": False, "max_reply_tokens": 6, "max_context_tokens": 900},
        "evaluation": {"concurrency": 3, "repeats": 1, "bootstrap_samples": 100},
    }.items():
        values[section] |= changes
    YAML(typ="safe").dump(values, tmp_path / "params.yaml")
    write_jsonl(tmp_path / "t.jsonl", [dialogue.model_dump(mode="json") for dialogue in scripted_dialogues()])
    (tmp_path / "transcripts").mkdir()
    shutil.copy(tmp_path / "t.jsonl", tmp_path / "transcripts" / "base.jsonl")
    for name, split in (("test", people()[1]), ("train", people()[0])):
        write_jsonl(tmp_path / "data" / "personas" / f"{name}.jsonl", [persona.model_dump(mode="json") for persona in split])
    monkeypatch.chdir(tmp_path)
    return tmp_path


# Links.


@pytest.mark.parametrize("through", ["a link", "a link to a link", "a link to nothing yet", "a folder that is a link"])
def test_writing_goes_through_links(through: str, tmp_path: Path) -> None:
    real, link = tmp_path / "real" / "file.json", tmp_path / "link.json"
    real.parent.mkdir()
    if through != "a link to nothing yet":
        real.write_text("old")
    if through == "a link to a link":
        (tmp_path / "between").symlink_to(real)
        link.symlink_to("between")
    elif through == "a folder that is a link":
        (tmp_path / "folder").symlink_to(real.parent)
        link = tmp_path / "folder" / "file.json"
    else:
        link.symlink_to(real)
    linked = [path for path in tmp_path.rglob("*") if path.is_symlink()]
    write_text_atomically(link, "new")
    assert real.read_text() == "new" and not real.is_symlink() and all(path.is_symlink() for path in linked)
    assert [path.name for path in real.parent.iterdir()] == ["file.json"], "nothing is left beside it"


def test_a_link_into_dvcs_cache_is_replaced_and_the_cache_keeps_what_it_has(tmp_path: Path) -> None:
    """With `cache.type: symlink` every output is a link to a file that DVC marks as read-only and trusts by its name."""
    cached, output = tmp_path / "cache" / "fd" / "9bfa59", tmp_path / "transcripts" / "base.jsonl"
    write_text_atomically(cached, "trusted")
    cached.chmod(0o444)
    output.parent.mkdir()
    output.symlink_to(cached)
    write_text_atomically(output, "new")
    assert cached.read_text() == "trusted" and output.read_text() == "new" and not output.is_symlink()


def test_links_in_a_circle_are_an_error_and_stay(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="Too many levels of symbolic links"):
        write_text_atomically(tmp_path / "a", "x")
    assert (tmp_path / "a").is_symlink() and (tmp_path / "b").is_symlink()


def test_both_splits_of_personas_go_through_links(project: Path) -> None:
    (project / "elsewhere").mkdir()
    (project / "people").mkdir()
    for name in ("train", "test"):
        (project / "elsewhere" / name).write_text("old")
        (project / "people" / f"{name}.jsonl").symlink_to(project / "elsewhere" / name)
    assert main(["personas", "generate", "-o", "people", "--train", "3", "--test", "3"]) == 0
    for name in ("train", "test"):
        assert (project / "people" / f"{name}.jsonl").is_symlink() and len((project / "elsewhere" / name).read_text().splitlines()) == 3


# What is no regular file.


def make_special(path: Path, kind: str) -> Callable[[int], bool]:
    """Put it at `path`; the result tells from the mode whether it is still there."""
    if kind == "fifo":
        os.mkfifo(path)
        return stat.S_ISFIFO
    if kind == "socket":
        socket.socket(socket.AF_UNIX).bind(str(path))
        return stat.S_ISSOCK
    if kind == "folder":
        path.mkdir()
        return stat.S_ISDIR
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 3))  # as /dev/null
    except PermissionError:
        pytest.skip("devices cannot be made here")
    return stat.S_ISCHR


@pytest.mark.parametrize("kind", ["device", "fifo", "socket", "folder"])
@pytest.mark.parametrize("linked", [False, True], ids=["itself", "by a link"])
def test_what_is_no_regular_file_is_not_replaced(kind: str, linked: bool, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = Path("special")
    is_still_there = make_special(place, kind)
    if linked:
        Path("link").symlink_to(place)
    said = error_of(capsys, "score", "t.jsonl", "-o", "link" if linked else place)
    assert "not a regular file" in said and "name a file" in said
    assert is_still_there(place.stat().st_mode) and (not linked or Path("link").is_symlink())


def test_no_writer_replaces_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for write in (lambda: write_json(pipe, {}), lambda: write_jsonl(pipe, []), lambda: write_text_atomically(pipe, "")):
        with pytest.raises(BadFile, match="pipe is a device, a pipe or a socket"):
            write()
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_file_where_a_folder_is_to_be_made_is_told_before_the_work(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in (["report", "t.jsonl"], ["distil", "t.jsonl"], ["fidelity", "t.jsonl"]):
        assert "t.jsonl is a file, and a folder is to be written; name another" in error_of(capsys, *command, "-o", "t.jsonl")
    assert "a part of the path is a file and no folder" in error_of(capsys, "score", "t.jsonl", "-o", "t.jsonl/x.json")


# Standard output.


def test_a_dash_is_standard_output_and_the_rest_is_said_on_standard_error(project: Path) -> None:
    done = rlver(project, "score", "t.jsonl", "-o", "-")
    assert done.returncode == 0 and "final emotion" in done.stderr
    assert json.loads(done.stdout)["n"] == 8 and not (project / "-").exists()


def test_commands_that_cannot_write_to_standard_output_say_so(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in (["converse", "--policy", "models/base"], ["distil", "t.jsonl"], ["report", "t.jsonl"], ["personas", "generate"]):
        assert "cannot write to standard output" in error_of(capsys, *command, "-o", "-")
    assert not (project / "-").exists()


# What is read is not written over.

READERS = {
    "appraise": ["appraise", "t.jsonl"],
    "import": ["import", "sage", "t.jsonl"],
    "personas import": ["personas", "import", "t.jsonl"],
    "score": ["score", "t.jsonl"],
    "score of another": ["score", "transcripts/base.jsonl", "--base", "t.jsonl"],
    "portrait": ["portrait", "transcripts/base.jsonl", "t.jsonl"],
    "judge": ["judge", "t.jsonl"],
    "audit": ["audit", "t.jsonl"],
    "consistency": ["consistency", "t.jsonl"],
    "converse": ["converse", "--policy", "models/base", "--personas", "t.jsonl"],
    "robustness": ["robustness", "--policy", "models/base", "--personas", "t.jsonl"],
    "latency": ["latency", "--policy", "models/base", "--personas", "t.jsonl"],
    "ask-unsure": ["ask-unsure", "t.jsonl", "--appraiser", "distilled:x", "--replies", "1", "--personas", "data/personas/test.jsonl"],
    "honesty score": ["honesty", "score", "t.jsonl"],
    "honesty score of another": ["honesty", "score", "transcripts/base.jsonl", "--before", "t.jsonl"],
    "blind report": ["blind", "report", "t.jsonl"],
    "the parameters": ["score", "transcripts/base.jsonl", "--params", "t.jsonl"],
}


@pytest.mark.parametrize("named", READERS)
def test_no_command_writes_over_what_it_reads(named: str, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = Path("t.jsonl").read_bytes()
    Path("link").symlink_to("t.jsonl")
    os.link("t.jsonl", "same")
    for out in ("t.jsonl", "link", "same", "transcripts/../t.jsonl"):
        assert "is read too" in error_of(capsys, *READERS[named], "-o", out)
    assert Path("t.jsonl").read_bytes() == before


def test_a_variants_transcripts_are_not_written_over(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "is read too" in error_of(capsys, "score", "base", "-o", "transcripts/base.jsonl")
    assert len(load_transcripts(Path("transcripts/base.jsonl"))) == 8


def leaves(command: click.Command, words: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], click.Command]]:
    inner = getattr(command, "commands", {})
    return [leaf for name, one in inner.items() for leaf in leaves(one, (*words, name))] or [(words, command)]


def test_every_command_with_an_output_looks_at_it_first() -> None:
    found = {
        words: option
        for words, command in leaves(typer.main.get_command(app))
        for option in command.params
        if {"-o", "--out"} & set(option.opts)
    }
    assert len(found) >= 16
    for words, option in found.items():
        assert option.name == "out" and option.metavar in ("FILE", "FILE|-", "FOLDER", "PATH"), words


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


def test_clean_leaves_dialogues_that_are_being_held(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (toy / "out.jsonl.partial").write_text("{}")
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


@pytest.mark.parametrize("bad", BAD_LINES)
@pytest.mark.parametrize(
    "command", [["score"], ["compare"], ["verify"], ["portrait"], ["audit"], ["consistency"]], ids=lambda words: words[0]
)
def test_a_line_that_cannot_be_read_is_named_with_its_file_and_what_to_do(
    command: list[str], bad: str, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = Path("t.jsonl").read_bytes().splitlines(keepends=True)[0]
    Path("bad.jsonl").write_bytes(good + BAD_LINES[bad] + b"\n")
    said = error_of(capsys, *command, "bad.jsonl")
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
