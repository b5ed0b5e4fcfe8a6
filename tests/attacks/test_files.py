"""What is written where, by whom: links, devices, standard output, inputs as outputs."""

from __future__ import annotations

import errno
import json
import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import click
import pytest
import typer
from file_project import error_of, file_project, rlver

from rlver.components.domain.files import BadFile, read_jsonl, read_yaml, write_json, write_jsonl, write_text_atomically
from rlver.components.rollout.transcripts import load_transcripts
from rlver.flows.cli import app, main


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return file_project(tmp_path, monkeypatch)


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


# What is no mapping, and what no file can be called.


@pytest.mark.parametrize(("text", "kind"), [("[]", "list"), ("false", "bool"), ("0", "int"), ("''", "str"), ("- a", "list")])
def test_parameters_that_are_no_mapping_are_refused(text: str, kind: str, tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(text)
    with pytest.raises(BadFile, match=rf"p\.yaml: expected a mapping, got {kind}$"):
        read_yaml(tmp_path / "p.yaml")


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "null", "{}"])
def test_parameters_without_anything_are_an_empty_mapping(text: str, tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(text)
    assert read_yaml(tmp_path / "p.yaml") == {}


def test_a_name_that_no_file_can_have_is_one_line(tmp_path: Path, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(BadFile, match="cannot be read: File name too long"):
        list(read_jsonl(tmp_path / ("x" * 300)))
    assert "File name too long" in error_of(capsys, "score", "x" * 300)


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


@pytest.mark.long
def test_a_dash_is_standard_output_and_the_rest_is_said_on_standard_error(project: Path) -> None:
    done = rlver(project, "score", "t.jsonl", "-o", "-")
    assert done.returncode == 0 and "final emotion" in done.stderr
    assert json.loads(done.stdout)["n"] == 8 and not (project / "-").exists()


def test_commands_that_cannot_write_to_standard_output_say_so(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in (["converse", "--policy", "models/base"], ["distil", "t.jsonl"], ["report", "t.jsonl"], ["personas", "generate"]):
        assert "cannot write to standard output" in error_of(capsys, *command, "-o", "-")
    assert not (project / "-").exists()


# Where nothing can be written is told before the work.


def test_a_place_that_nothing_can_be_written_to_is_told_first(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "/proc/x.json: nothing can be written into /proc (" in error_of(capsys, "score", "t.jsonl", "-o", "/proc/x.json")
    assert "this name promises a packed one" in error_of(capsys, "score", "t.jsonl", "-o", "x.json.gz")
    assert not list(project.glob("x.json*"))


def test_a_link_into_a_place_that_must_stay_as_it_is_is_replaced(project: Path) -> None:
    Path("version.json").symlink_to("/proc/version")  # as into DVC's cache: nobody may write it, and writing replaces the link
    assert main(["score", "t.jsonl", "-o", "version.json"]) == 0
    assert json.loads(Path("version.json").read_text())["n"] == 8 and not Path("version.json").is_symlink()


def test_a_full_disk_is_told_with_the_file_that_was_asked_for(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", ".x.json.abcd")

    monkeypatch.setattr("rlver.components.domain.files.os.fsync", full)
    with pytest.raises(OSError, match=r"No space left on device: 'x\.json'"):
        write_text_atomically(Path("x.json"), "1")
    assert not list(project.glob("*x.json*"))


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


@pytest.mark.parametrize(
    ("command", "read"),
    [
        (["score", "base", "-o"], "data/personas/test.jsonl"),  # by default
        (["converse", "--policy", "m", "--personas", "data/personas/test.jsonl", "-o"], "m/config.json"),
        (["audit", "other", "-o"], "transcripts/base.jsonl"),  # the base, unless another is named
        (["audit", "base", "-o"], "logs/base/train.jsonl"),
        (["simulator", "danger", "--transcripts"], "params.yaml"),
        (["simulator", "danger", "--transcripts"], "data/personas/test.jsonl"),
        (["simulator", "danger", "-o", "new.json", "--transcripts"], "new.json"),
    ],
)
def test_what_is_read_without_being_named_is_not_written_over(
    command: list[str], read: str, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("m").mkdir()
    Path("m/config.json").write_text("{}")
    Path("logs/base").mkdir(parents=True)
    Path("logs/base/train.jsonl").write_text("{}")
    before = Path(read).read_bytes() if Path(read).exists() else None
    assert "is read too" in error_of(capsys, *command, read)
    assert (Path(read).read_bytes() if Path(read).exists() else None) == before
