"""Progress of long work: redrawn on a terminal, a line every tenth of the way elsewhere."""

from __future__ import annotations

import io

from fakes import a_dialogue

from rlver.components.domain.transcript import StopReason
from rlver.tasks.runtime.progress import DialogueProgress, Steps, counted

SUCCESS, HALF = a_dialogue("a", [10] * 6), a_dialogue("b", [10])
FAILED = HALF.model_copy(update={"emotion_final": None, "error": "x", "stop_reason": StopReason.FAILED})


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_line_has_the_mean_the_success_rate_and_the_time_left() -> None:
    now = [0.0]
    progress = DialogueProgress(4, io.StringIO(), clock=lambda: now[0])
    assert progress.line().endswith("0/4  emotion –  success –  ETA –")
    now[0] = 30.0
    progress.add(SUCCESS)
    progress.add(HALF)
    assert progress.line() == "████████████░░░░░░░░░░░░ 2/4  emotion 75.0  success 50%  ETA 0:30"


def test_what_an_earlier_run_finished_says_nothing_about_the_speed() -> None:
    now = [0.0]
    progress = DialogueProgress(4, io.StringIO(), clock=lambda: now[0])
    progress.add(SUCCESS, held_now=False)
    assert progress.line().endswith("1/4  emotion 100.0  success 100%  ETA –")
    now[0] = 50.0
    progress.add(FAILED)
    assert progress.line().endswith("2/4  emotion 100.0  success 100%  ETA 1:40")


def test_in_a_file_there_are_ten_lines_however_many_dialogues() -> None:
    stream = io.StringIO()
    progress = DialogueProgress(200, stream, clock=lambda: 0.0)
    for _ in range(200):
        progress.add(HALF)
    progress.close()
    lines = stream.getvalue().splitlines()
    assert len(lines) == 10 and "200/200" in lines[-1] and "\r" not in stream.getvalue()


def test_on_a_terminal_one_line_is_redrawn() -> None:
    stream = Terminal()
    progress = DialogueProgress(3, stream, clock=lambda: 0.0)
    progress.close()
    assert stream.getvalue() == ""
    for _ in range(3):
        progress.add(HALF)
    progress.close()
    assert stream.getvalue().count("\r") == 3 and stream.getvalue().endswith("3/3  emotion 50.0  success 0%  ETA 0:00\n")


def test_pieces_of_any_work_are_counted_with_the_time_left() -> None:
    now, stream = [0.0], io.StringIO()
    steps = Steps(4, "cheats", stream, clock=lambda: now[0])
    now[0] = 30.0
    steps.step()
    assert stream.getvalue() == "██████░░░░░░░░░░░░░░░░░░ 1/4 cheats  ETA 1:30\n"


def test_counted_items_come_through_ten_lines_in_a_file_one_on_a_terminal_none_for_one() -> None:
    file, terminal, silent = io.StringIO(), Terminal(), io.StringIO()
    assert list(counted(range(50), "files", file)) == list(counted(range(50), "files", terminal)) == list(range(50))
    assert list(counted("a", "files", silent)) == ["a"] and silent.getvalue() == ""
    assert len(file.getvalue().splitlines()) == 10 and "\r" not in file.getvalue()
    assert terminal.getvalue().count("\n") == 1 and terminal.getvalue().count("\r") == 50
