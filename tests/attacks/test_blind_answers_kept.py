"""What somebody did to the answers of `rlver blind`, in their text or in their file: nothing that was confirmed is lost."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from announced import ROOT
from blind_page import FIRST, SECOND, ScriptedPolicy, answer, client, give, message, talking
from blind_server import SERVE, server
from blind_study import both, comparing
from starlette.testclient import TestClient

from rlver.components.domain.files import BadFile
from rlver.tasks.runtime.appraisers import read_transcripts
from rlver.tasks.studies.blind.answer_file import AnswerFile
from rlver.tasks.studies.blind.answers import Choice, PersonSaid, Replied, TalkVerdict, read_answers
from rlver.tasks.studies.blind.comparing import Comparing, pairs_of, study_of
from rlver.tasks.studies.blind.page import Page
from rlver.tasks.studies.blind.report import human_report, judged
from rlver.tasks.studies.blind.wording import markdown

HALF = "\ud83d"  # of an emoji: what a text that was cut in the middle of one ends with


def choices(path: Path) -> list[str]:
    return [row.answer_id for row in read_answers(path).rows if isinstance(row, Choice)]


# Halves of characters, of which no file and no answer can be made.


def test_half_a_character_in_a_request_is_replaced(answers: AnswerFile) -> None:
    a = ScriptedPolicy("a", ["x"])
    asked = client(Page(comparing(answers), talking(answers, a, ScriptedPolicy("b", ["y"])), None, ()))
    sent = {"content-type": "application/json"}
    assert asked.post("/api/answer", content=json.dumps(answer(rater=f"Ann{HALF}", reason=f"warm{HALF}")), headers=sent).is_success
    state = asked.post("/api/message", content=json.dumps(message(f"Hm{HALF}", rater=f"Ann{HALF}")), headers=sent).json()
    verdict = {"rater": f"Ann{HALF}", "talk": state["talk"], "answer_id": SECOND, "choice": "tie", "confidence": 1, "reason": HALF}
    assert asked.post("/api/verdict", content=json.dumps(verdict), headers=sent).is_success
    rows = read_answers(answers.path).rows
    assert [(row.rater, row.reason) for row in rows if isinstance(row, Choice | TalkVerdict)] == [("ann�", "warm�"), ("ann�", "�")]
    assert [row.text for row in rows if isinstance(row, PersonSaid)] == a.heard == ["Hm�"]


def test_half_a_character_in_a_reply_is_replaced(answers: AnswerFile) -> None:
    talk = client(Page(None, talking(answers, ScriptedPolicy("a", [f"x{HALF}"]), ScriptedPolicy("b", [RuntimeError(HALF)])), None, ()))
    told = talk.post("/api/message", json=message())
    assert told.is_success and {told.json()["messages"][0][side]["reply"] for side in ("left", "right")} == {"x�", None}
    assert [(row.a.reply, row.b.error) for row in read_answers(answers.path).rows if isinstance(row, Replied)] == [
        ("x�", "RuntimeError: �")
    ]
    assert talk.get("/api/talk?rater=ann").json() == told.json()


def test_half_a_character_in_transcripts_is_replaced(tmp_path: Path, answers: AnswerFile) -> None:
    sides = []
    for dialogues in both(8):
        lines = [dialogue.model_dump_json().replace("user ", "user \\ud83d").replace("secret-", "\\udc00") for dialogue in dialogues]
        (tmp_path / "one.jsonl").write_text("\n".join(lines))
        sides.append(read_transcripts(tmp_path / "one.jsonl"))
    pairs = pairs_of(*sides).pairs
    study = study_of((f"a{HALF}", f"b{HALF}"), pairs, 7, 6, 0.5)
    answers.begin(study)
    page = client(Page(Comparing(pairs, study, answers, lambda: "now"), None, None, ()))
    assert page.get("/api/pair?rater=ann").json()["left"][0]["user"].startswith("user �")
    assert page.post("/api/answer", json=answer()).is_success
    assert choices(answers.path) == [FIRST]


# The file of answers.


def test_the_same_number_for_another_answer_loses_none(page: TestClient, answers: AnswerFile) -> None:
    for sent in (answer(0), answer(1), answer(1, rater="Bo"), answer(1), answer(1, confidence=3)):
        assert page.post("/api/answer", json=sent).is_success
    rows = [row for row in read_answers(answers.path).rows if isinstance(row, Choice)]
    assert [(row.rater, row.confidence) for row in rows] == [("ann", 2), ("ann", 2), ("bo", 2), ("ann", 3)]


def test_a_name_is_text_in_the_report(answers: AnswerFile) -> None:
    page = client(Page(comparing(answers), None, None, ()))
    for place, rater in enumerate(("![x](http://evil.example/x)", "<img src=x>", "a|b", "a\\|b`c`")):
        assert page.post("/api/answer", json=answer(0, rater=rater, answer_id=f"{place:032x}")).is_success
    rows = markdown(human_report(judged(answers.rows), 100, 7, None)).splitlines()
    for name in ("!\\[x](http://evil.example/x)", "\\<img src=x>", "a\\|b", "a\\\\\\|b\\`c\\`"):
        assert any(row.startswith(f"| {name} | 1 |") for row in rows), name


def deleted(path: Path) -> None:
    path.unlink()


def deleted_with_its_folder(path: Path) -> None:
    path.unlink()
    path.parent.rmdir()


def replaced(path: Path) -> None:
    path.with_name("new").write_text("somebody's\n")
    path.with_name("new").rename(path)


def cut(path: Path) -> None:
    os.truncate(path, 0)


def moved_behind_a_link(path: Path) -> None:
    path.rename(path.with_name("moved"))
    path.symlink_to("nowhere")


each_attack = pytest.mark.parametrize(
    ("attack", "goes_on_in"),
    [
        (deleted, "a.jsonl"),
        (deleted_with_its_folder, "a.jsonl"),
        (replaced, "a.2.jsonl"),
        (cut, "a.2.jsonl"),
        (moved_behind_a_link, "a.2.jsonl"),
    ],
)


@each_attack
def test_answers_outlive_their_file(tmp_path: Path, attack: Callable[[Path], None], goes_on_in: str) -> None:
    path, said = tmp_path / "kept" / "a.jsonl", list[str]()
    with AnswerFile(path, said.append) as file:
        check_that_answers_outlive(path, attack, goes_on_in, client(Page(comparing(file), None, None, ())))
    assert len(said) == 1 and f"every answer is in {path.with_name(goes_on_in)}" in said[0]


@pytest.mark.slow
@each_attack
def test_answers_outlive_their_file_in_a_process(project: Path, attack: Callable[[Path], None], goes_on_in: str) -> None:
    with server(project, *SERVE) as (process, url):
        check_that_answers_outlive(project / "kept" / "a.jsonl", attack, goes_on_in, httpx.Client(base_url=url, trust_env=False))
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=20)[0]
        assert f"every answer is in kept/{goes_on_in}" in said and "Traceback" not in said


def check_that_answers_outlive(path: Path, attack: Callable[[Path], None], goes_on_in: str, page: httpx.Client) -> None:
    goes_on = path.with_name(goes_on_in)
    assert give(page, 0).is_success
    attack(path)
    left = path.read_bytes() if path.is_file() else None
    refused = give(page, 1)
    assert refused.status_code == 507 and refused.json()["error"].startswith("Not saved")
    assert choices(goes_on) == [f"{0:032x}"], "what was confirmed is on the disk again"
    assert give(page, 1).is_success and give(page, 2).is_success
    assert choices(goes_on) == [f"{place:032x}" for place in range(3)] and goes_on.stat().st_mode & 0o077 == 0
    assert goes_on == path or left == (path.read_bytes() if path.is_file() else None), "somebody else's file is left alone"


def test_answers_whose_file_was_deleted_are_written_again_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    with AnswerFile(path, lambda line: None) as file:
        assert give(client(Page(comparing(file), None, None, ())), 0).is_success
        path.unlink()
    assert choices(path) == [f"{0:032x}"]


def test_answers_whose_file_was_deleted_on_a_full_disk_wait_for_room(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    with AnswerFile(path, lambda line: None) as file:
        page = client(Page(comparing(file), None, None, ()))
        assert give(page, 0).is_success
        path.unlink()
        before = resource.prlimit(0, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        try:
            assert [give(page, 1).status_code for _ in range(3)] == [507] * 3 and not path.exists()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert [give(page, 1).status_code for _ in range(2)] == [507, 200]
    assert choices(path) == [f"{0:032x}", f"{1:032x}"]


def test_a_rest_of_an_answer_that_cannot_be_taken_back_spoils_no_other(answers: AnswerFile, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise OSError(5, "Input/output error")

    page, write = client(Page(comparing(answers), None, None, ())), os.write
    begun = answers.path
    with monkeypatch.context() as disk:
        disk.setattr(os, "write", lambda file, line: write(file, line[:20]))
        disk.setattr(os, "ftruncate", broken)
        assert page.post("/api/answer", json=answer(0)).status_code == 507
    assert [page.post("/api/answer", json=answer(0)).status_code for _ in range(2)] == [507, 200]
    assert answers.path != begun and choices(answers.path) == [FIRST]


@pytest.mark.parametrize("device", ["/dev/null", "/"])
def test_what_is_no_file_is_no_file_of_answers(device: str) -> None:
    with pytest.raises(BadFile, match="not a regular file"):
        read_answers(Path(device))
    with pytest.raises(BadFile, match="not a regular file"), AnswerFile(Path(device), print):
        pass


@pytest.mark.slow
@pytest.mark.parametrize("command", [("blind", "report"), ("blind", "one.jsonl", "other.jsonl", "--answers")])
def test_a_pipe_in_the_place_of_answers_is_refused_and_not_waited_for(project: Path, command: tuple[str, ...]) -> None:
    os.mkfifo(project / "pipe")
    line = (sys.executable, "-m", "rlver.flows.cli", *command, "pipe")
    told = subprocess.run(line, cwd=project, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=20)
    assert told.returncode == 1 and "error: pipe: not a regular file" in told.stderr and "Traceback" not in told.stderr


@pytest.mark.parametrize("content", ["do not lose this", '{"my": "notes"}'])
def test_a_file_of_somebody_else_is_not_cut_off(tmp_path: Path, content: str) -> None:
    path = tmp_path / "notes.txt"
    path.write_text(content)
    with pytest.raises(BadFile, match="not a file of answers"), AnswerFile(path, print):
        pass
    assert path.read_text() == content


def test_a_last_line_that_is_too_deep_is_an_error_of_the_file(answers: AnswerFile) -> None:
    comparing(answers)
    whole = answers.path.read_bytes()
    answers.path.write_bytes(whole + b"[" * 5_000 + b"]" * 5_000 + b"\n")
    assert read_answers(answers.path).cut_off_bytes == 10_001
    answers.path.write_bytes(whole)
