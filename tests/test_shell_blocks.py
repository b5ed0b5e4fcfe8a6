"""The shell blocks of the documentation run, in a finished run of a policy so small that it takes a minute, with a reader's own words, files and
servers in them (tests/shell_commands.py, tests/shell_project.py). What does not run is listed there with its reason.

The tour and the examples of the tutorial run in tests/test_examples.py, and their output is compared there.
"""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from documents import section, shell_blocks
from shell_commands import BEFORE, NOT_RUN, OTHER_PROGRAMS, SAYS, STANDS_FOR, STAYS, filled_in, plain, why_not, with_places
from shell_project import Places, Staying, bash, beside, finish, judge_a_pair

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[1]
PAGES = sorted(
    page.relative_to(ROOT).as_posix()
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md"))
    if shell_blocks(page.read_text(encoding="utf-8"))
)
LEFT_OUT = len(sum(NOT_RUN.values(), ()))


class Finished(NamedTuple):
    """A project in which the pipeline has run, and what is beside it."""

    project: Path
    places: Places


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Finished]:
    project = finish(tmp_path_factory.mktemp("shell-blocks"))
    with beside(project, tmp_path_factory.mktemp("yours")) as places:
        yield Finished(project, places)


@pytest.mark.parametrize("page", PAGES)
def test_the_shell_blocks_of_a_page_run(page: str, finished: Finished, tmp_path: Path) -> None:
    project = tmp_path / "project"
    shutil.copytree(finished.project, project, symlinks=True)
    with ExitStack() as stack:
        walk = Walk(page, project, finished.places.as_words(), stack)
        failed = [f"{command}\n{said}" for command in commands_of(page) if not why_not(page, command) and (said := walk.trouble(command))]
    assert not failed, "\n\n".join(failed)


def test_nearly_every_command_runs_and_the_tables_speak_of_commands_that_there_are() -> None:
    commands = [(page, command) for page in PAGES for command in commands_of(page)]
    assert sum(why_not(page, command) is not None for page, command in commands) == LEFT_OUT
    lines = {plain(command) for _, command in commands}
    assert not {before for before in BEFORE if re.sub(r"^docs/\S+: | \(\d\)$", "", before) not in lines}
    assert not {pattern for pattern in SAYS if not any(re.search(pattern, line) for line in lines)}
    assert not {pattern for pattern in STAYS if not any(re.search(pattern, filled_in(line, {})) for line in lines)}
    filled, unused = lines, []
    for pattern, words in STANDS_FOR.items():
        before, filled = filled, {filled_in(line, {}, {pattern: words}) for line in filled}
        if before == filled:
            unused.append(pattern)
    assert not unused


class Walk:
    """A reader who types one command of a page after the other."""

    def __init__(self, page: str, project: Path, places: dict[str, str], stack: ExitStack) -> None:
        self._page, self._project, self._places = page, project, places
        self._typed: Counter[str] = Counter()
        self._staying: list[Staying] = []
        stack.callback(self._stop_all)

    def trouble(self, command: str) -> str | None:
        """What a command says that does not do what its page says, else None."""
        line = plain(command)
        if line.split()[0] in OTHER_PROGRAMS and not shutil.which(line.split()[0]):
            return None
        self._typed[line] += 1
        before = BEFORE.get(line) or BEFORE.get(f"{self._page}: {line} ({self._typed[line]})") or "true"
        typed = filled_in(command, self._places)
        try:
            if (done := bash(with_places(before, self._places), self._project)).returncode:
                return f"before it: status {done.returncode}: {done.stdout}\n{done.stderr}"
            listens = found_in(STAYS, plain(typed))
            return self._stay(line, typed, listens) if listens else self._run(line, typed)
        except subprocess.TimeoutExpired as error:
            return f"no end: {error}"

    def _run(self, line: str, typed: str) -> str | None:
        done = bash(typed, self._project)
        statuses, words = found_in(SAYS, line) or ((0,), "")
        said = f"{done.stdout}\n{done.stderr}"
        return None if done.returncode in statuses and re.search(words, said) else f"status {done.returncode}: {said}"

    def _stay(self, line: str, typed: str, listens: str) -> str | None:
        for earlier in [one for one in self._staying if one.command.split()[:2] == typed.split()[:2]]:
            self._stop(earlier)
        try:
            staying = Staying(typed, self._project, listens)
        except subprocess.CalledProcessError as error:
            return f"it does not stay: {error.stderr}"
        self._staying.append(staying)
        if line == "rlver blind base grpo-think":
            judge_a_pair(staying.address)
        return None

    def _stop_all(self) -> None:
        for staying in self._staying[::-1]:
            self._stop(staying)

    def _stop(self, staying: Staying) -> None:
        if staying in self._staying:
            self._staying.remove(staying)
            status = staying.stop()
            assert status in (0, 130, -signal.SIGINT) or (status == 1 and "Aborted!" in staying.said), (
                f"{staying.command} ends with status {status}: {staying.said}"
            )


def found_in(table: Mapping[str, Any], line: str) -> Any:
    return next((value for pattern, value in table.items() if re.search(pattern, line)), None)


def commands_of(page: str) -> Iterator[str]:
    """Whole commands, each of one line or more, without the prefix of the environment and without remarks of their own line."""
    text = (ROOT / page).read_text(encoding="utf-8")
    if page == "docs/tutorial.md":
        for title in ("The five-minute tour", "Small things of your own"):
            text = text.replace(section(ROOT / page, title), "")
    for block in shell_blocks(text):
        begun = ""
        for line in block.splitlines():
            begun += f"{line}\n"
            whole = not line.endswith("\\") and not subprocess.run(["bash", "-n"], input=begun.encode(), capture_output=True).returncode
            if whole:
                if begun.strip() and not begun.startswith("#"):
                    yield re.sub(r"^\.venv/bin/(?=rlver)", "", begun.strip())
                begun = ""
        assert not begun, f"{page}: {begun}"
