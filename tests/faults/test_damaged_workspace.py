"""Damage to what DVC keeps: right after a rerun, or one line that says what to do."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from toy_runs import ran

from rlver.tasks.graph import dvc
from rlver.tasks.graph import lock as integrity

pytestmark = pytest.mark.slow
LINES = "".join(f"{number}\n" for number in range(2000))
STAGE = """
import pathlib, sys
out = pathlib.Path(sys.argv[1])
out.parent.mkdir(parents=True, exist_ok=True)
text = "".join(f"{n}\\n" for n in range(2000))
if out.suffix:
    out.write_text(text)
else:
    out.mkdir()
    (out / "a.txt").write_text(text), (out / "sub").mkdir(), (out / "sub" / "ä.txt").write_text(text * 2)
with open("ran.log", "a") as log:
    log.write(out.name + " ")
"""
GRAPH = """
stages:
  file: {cmd: python stage.py data/file.txt, outs: [data/file.txt]}
  folder: {cmd: python stage.py data/folder, deps: [data/file.txt], outs: [data/folder]}
"""


@pytest.fixture
def made(toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A finished project of a file and a folder, with DVC's state of its own."""
    monkeypatch.setenv("DVC_SITE_CACHE_DIR", str(tmp_path / "site"))
    (toy / "stage.py").write_text(STAGE)
    (toy / "dvc.yaml").write_text(GRAPH)
    assert repro(toy).returncode == 0
    return toy


def repro(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run((sys.executable, "-m", "dvc", "repro", *arguments), cwd=root, capture_output=True, text=True, check=False)


def cut_cache(root: Path) -> None:
    objects = [path for path in integrity.objects(root).glob("??/*") if path.suffix != ".dir"]
    assert objects
    for path in objects:
        path.chmod(0o644)
        path.write_bytes(path.read_bytes()[:100])
        path.chmod(0o444)  # as DVC marks what it trusts


def is_right(root: Path) -> bool:
    return (root / "data" / "file.txt").read_text() == LINES and (root / "data" / "folder" / "sub" / "ä.txt").read_text() == LINES * 2


def test_the_md5_of_files_and_folders_is_dvcs_own(made: Path) -> None:
    lock = dvc.locked(made)
    assert {path: integrity.md5_of(made / path) for stage in lock.values() for path in stage.outputs} == {
        path: md5 for stage in lock.values() for path, md5 in stage.outputs.items()
    }
    assert integrity.mend(made, lock["folder"].outputs) == [] and is_right(made)


def test_what_dvcignore_names_is_no_part_of_an_output(made: Path) -> None:
    (made / ".dvcignore").write_text("*.pyc\n__pycache__/\n")
    (made / "data" / "folder" / "__pycache__").mkdir()
    for beside in ("a.pyc", "__pycache__/b.txt"):
        (made / "data" / "folder" / beside).write_text("beside")
    outputs = dvc.locked(made)["folder"].outputs
    assert dvc.changed(made) == {} and integrity.mend(made, outputs) == [] and is_right(made)
    (made / "data" / "folder" / "more.txt").write_text("more")
    assert integrity.mend(made, outputs) == ["data/folder"]


def test_dvc_trusts_a_damaged_cache_and_what_came_of_it_is_noticed_and_mended(made: Path) -> None:
    cut_cache(made)
    shutil.rmtree(made / "data")
    assert repro(made).returncode == 0 and not is_right(made), "were this DVC's own care, tasks/graph/lock.py could go"
    lock = dvc.locked(made)
    assert [integrity.mend(made, lock[name].outputs) for name in ("file", "folder")] == [["data/file.txt"], ["data/folder"]]
    assert all(integrity.md5_of(path) == path.parent.name + path.name for path in integrity.objects(made).glob("??/*") if not path.suffix)
    assert repro(made).returncode == 0
    assert is_right(made) and dvc.changed(made) == {}


@pytest.mark.parametrize("content", ["", "\0" * 200, "schema: '2.0'\nstages:\n  file:\n    cm", "[1, 2"])
def test_a_damaged_lock_is_one_line_and_without_it_everything_comes_back(made: Path, content: str) -> None:
    ran(made)
    (made / "dvc.lock").write_text(content)
    for ask in (lambda: dvc.plan(made), lambda: dvc.changed(made)):
        with pytest.raises(dvc.GraphError) as error:
            ask()
        assert "dvc.lock" in str(error.value) and "delete it" in str(error.value) and "\n" not in str(error.value)
    with pytest.raises(dvc.StageFailed) as failed:
        dvc.reproduce(made, "file", lambda _: None)
    assert "dvc.lock" in str(failed.value) and "\n" not in str(failed.value)
    (made / "dvc.lock").unlink()
    assert repro(made).returncode == 0
    assert is_right(made) and dvc.changed(made) == {}


def test_half_a_lock_of_a_run_that_was_killed_is_put_back_by_the_next(made: Path) -> None:
    """DVC writes dvc.lock in place, and `kill -9` can come in the middle of that."""
    before = (made / "dvc.lock").read_text()
    (made / "stage.py").write_text(f"import time\nopen('began', 'w').close(), time.sleep(118.25)\n{STAGE}")
    command = (
        sys.executable,
        "-c",
        "from pathlib import Path; from rlver.tasks.graph import dvc; dvc.reproduce(Path.cwd(), 'file', print)",
    )
    (made / "data" / "file.txt").unlink()
    shutil.rmtree(made / ".dvc" / "cache")
    process = subprocess.Popen(command, cwd=made, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    end = time.monotonic() + 120
    while not (made / "began").exists():
        assert process.poll() is None and time.monotonic() < end
        time.sleep(0.05)
    process.kill()
    process.wait()
    killed = dvc.holders(made)
    for group in {os.getpgid(pid) for pid in killed}:
        os.killpg(group, signal.SIGKILL)
    while any(psutil.pid_exists(pid) for pid in killed):  # `dvc repro` takes one that nobody has reaped yet for another DVC at work
        assert time.monotonic() < end
        time.sleep(0.05)
    (made / "dvc.lock").write_text(before[: before.index("outs:") + 10])
    with pytest.raises(dvc.GraphError, match=r"dvc\.lock is cut off; .* delete it"):
        dvc.locked(made)
    assert [step.name for step in dvc.plan(made)] == ["file", "folder"]
    assert (made / "dvc.lock").read_text() == before
    (made / "stage.py").write_text(STAGE)
    assert repro(made).returncode == 0 and is_right(made) and dvc.changed(made) == {}


def test_only_a_whole_copy_of_a_lock_is_put_back(made: Path) -> None:
    """A copy may be taken while DVC writes dvc.lock for another stage; one that was never ended has a dot before its name."""
    whole = (made / "dvc.lock").read_text()
    kept = made / integrity.KEPT / "dvc.lock"
    kept.mkdir(parents=True)
    for number, (name, text) in enumerate({"file": whole, "folder": whole[: whole.index("outs:")], ".file.1a": ""}.items()):
        (kept / name).write_text(text)
        os.utime(kept / name, (number, number))
    (made / "dvc.lock").write_text("")
    assert integrity.put_back(made, Path("dvc.lock")) and (made / "dvc.lock").read_text() == whole
    assert not integrity.put_back(made, Path("dvc.lock"))


def test_a_file_that_another_process_puts_into_the_cache_stays(made: Path) -> None:
    cut_cache(made)
    shutil.rmtree(made / "data")
    repro(made)
    written = integrity.objects(made) / "ab" / "tmp-upload.123"
    written.parent.mkdir(exist_ok=True)
    written.write_text("half")
    assert integrity.mend(made, dvc.locked(made)["file"].outputs) == ["data/file.txt"] and written.exists()


def test_dvcs_list_of_known_files_may_be_damaged(made: Path, tmp_path: Path) -> None:
    databases = list((tmp_path / "site").rglob("*.db"))
    assert databases
    for path in databases:
        path.write_bytes(b"no database" * 500)
    with pytest.raises(dvc.GraphError, match=r"is damaged .*; delete ") as error:
        dvc.changed(made)
    folder = Path(str(error.value).partition("delete ")[2].partition(",")[0])
    assert folder.is_relative_to(tmp_path)
    shutil.rmtree(folder)
    assert dvc.changed(made) == {}


def test_a_clock_that_was_wrong_makes_nothing_stale_and_hides_no_change(made: Path) -> None:
    ran(made)
    files = [path for path in (made / "data").rglob("*") if path.is_file()] + [made / "stage.py"]
    for moment in (0.0, time.time() + 10 * 365 * 86400):
        for path in files:
            os.utime(path, (moment, moment))
        assert repro(made).returncode == 0 and ran(made) == []
    (made / "data" / "file.txt").write_text("changed\n")
    os.utime(made / "data" / "file.txt", (0.0, 0.0))
    assert set(dvc.changed(made)) == {"file", "folder"}


def test_a_file_where_a_folder_should_be_is_one_line(made: Path) -> None:
    shutil.rmtree(made / "data")
    (made / "data").write_text("in the way")
    with pytest.raises(dvc.StageFailed) as error:
        dvc.reproduce(made, "file", lambda _: None)
    assert "data" in str(error.value) and "\n" not in str(error.value)
    (made / "data").unlink()
    assert repro(made).returncode == 0 and is_right(made)


def test_two_runs_at_once_in_one_folder_end_in_one_right_result(made: Path) -> None:
    ran(made)
    shutil.rmtree(made / "data")
    shutil.rmtree(made / ".dvc" / "cache")
    command = (sys.executable, "-c", "import sys; from rlver.tasks.graph import dvc; from pathlib import Path\n"
               "for stage in ('file', 'folder'): dvc.reproduce(Path.cwd(), stage, print)")  # fmt: skip
    surroundings = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    both = [
        subprocess.Popen(command, cwd=made, env=surroundings, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)
    ]
    ends = [(one.communicate(timeout=600)[1], one.returncode) for one in both]
    assert any(status == 0 for _, status in ends)
    for said, status in ends:
        assert status == 0 or "another DVC process is at work" in said, said
    assert repro(made).returncode == 0
    assert is_right(made) and dvc.changed(made) == {} and sorted(set(ran(made))) == ["file.txt", "folder"]


def test_metrics_that_were_cut_off_are_one_line_with_what_to_do(made: Path) -> None:
    from rlver.tasks.tracking import results

    scores: dict[str, Any] = {"n": 8, "emotion_mean": 13.3, "emotion_ci95": [11, 15.5], "success_rate": 0.02, "failure_rate": 0.76}
    path = made / "metrics" / "base" / "sentient.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(scores)[:30])
    with pytest.raises(ValueError, match=r"sentient\.json.*(again|score)"):
        results.table(made)
