"""The messages of the code and the pages that list them, in both directions."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "docs" / "site"))
import messages
from texts import Program

FIRST_COLUMN = re.compile(r"^\| (`.+?) \| (.+) \|$", flags=re.MULTILINE)
# Raises that say no word of their own: file, expression, and whose words they pass on.
SAID_BY_OTHERS = {
    (
        "components/ability/backends.py",
        "EndpointUnavailable(f\"{numbers.base_url.rstrip('/')}: {hiccup.what}; {hiccup.advice}\")",
    ): "Hiccup",
    ("components/ability/jail.py", "OSError(number, os.strerror(number), target)"): "the system",
    ("components/adapters/verifiers.py", "NotScored(f'{held.dialogue_id}: {held.error}')"): "what ended the dialogue",
    ("components/adapters/verl.py", "NotScored(f'{held.dialogue_id}: {held.error}')"): "what ended the dialogue",
    ("components/domain/files.py", "OSError(error.errno, error.strerror, str(path))"): "the system",
    ("components/domain/protocols.py", "SimulatorUnavailable(str(error))"): "the error caught",
    ("components/endpoint/opening.py", "EndpointUnavailable(f'{parameters.url}: {hiccup.what}; {hiccup.advice}')"): "Hiccup",
    (
        "components/endpoint/retries.py",
        "EndpointUnavailable(f'{self._parameters.url}: {hiccup.what}, {failures} times; {hiccup.advice}')",
    ): "Hiccup",
    ("components/formats/sage.py", "UnreadableRecord(str(error))"): "the error caught",
    ("components/policy/chat_policy.py", "ContextFull(f'{turn}: {error}')"): "the error caught",
    ("components/policy/chat_policy.py", "PolicyUnavailable(f'{turn}: {error}')"): "the error caught",
    ("components/policy/load.py", "ValueError(f'{file.name}: {error}')"): "the error caught",
    ("components/replay/verification.py", "NotRederivable(abstained)"): "the appraiser, on what it does not read",
    ("components/replay/verification.py", "NotRederivable(f'dialogue {dialogue.dialogue_id}: {error}')"): "the error caught",
    ("components/rollout/episode.py", "_first(group_error)"): "the first error of a group",
    ("components/settings/settings.py", "SettingsError(f'{where}: {error}')"): "the error caught",
    (
        "components/settings/settings.py",
        "SettingsError(f\"{where}: {key}: {first['msg']}{(got if first['loc'] else '')}\")",
    ): "pydantic, or a check of a section",
    ("components/training/adapters.py", "ValueError(f'{file}: {error}')"): "the error caught",
    ("components/users/llm/answers.py", "UnparsableAnswer(str(error), text)"): "the error caught",
    ("components/users/llm/questions.py", "SimulatorUnavailable(f'{what}: {error}')"): "the error caught",
    ("components/weights/sources/gguf.py", "ValueError(f'gguf:{name}: {error.strerror or error}')"): "the system",
    (
        "tasks/runtime/person.py",
        "SimulatorUnavailable(dialogue.error.removeprefix(f'{SimulatorUnavailable.__name__}: '))",
    ): "what ended the dialogue",
    ("tasks/commands/dialogues.py", "BadFile(f'{file}:{problems[0].line}: {problems[0].reason}')"): "Problem",
    ("tasks/commands/dialogues.py", "BadFile(f'{file}:{row.line}: {error}')"): "the error caught",
    ("tasks/runtime/connections.py", "ValueError(f'{server.url_variable}: {error}')"): "the error caught",
    ("tasks/studies/authoring/answers.py", "Unusable('malformed', str(error))"): "the error caught",
    ("tasks/studies/blind/command.py", "BadFile(f'{answers}: {error}')"): "the error caught",
    ("tasks/studies/blind/talking.py", "NoSuchTalk(talk.why_ended)"): "who ended the talk",
    ("tasks/studies/distil/recordings.py", "BadFile(f'{path}:{problems[0].line}: {problems[0].reason}')"): "Problem",
    ("tasks/studies/distil/recordings.py", "BadFile(f'{path}:{row.line}: {error}')"): "the error caught",
    ("tasks/studies/honesty/questions.py", "BadFile(f\"{where}: {'.'.join(map(str, first['loc']))}: {first['msg']}\")"): "pydantic",
    ("tasks/studies/judge/judging.py", "UnparsableAnswer(str(error), text)"): "the error caught",
    ("tasks/studies/robustness/command.py", "TooManyFailures(f'{who.name}: {missing[UNSHIFTED]}')"): "the error caught, kept by user",
    ("tasks/tracking/store.py", "kind(f'MLflow: {shown(first)}')"): "MLflow",
}


@pytest.fixture(scope="module")
def program(repository_root: Path) -> Program:
    return Program.of(repository_root, messages.LAYERS)


@pytest.mark.long
def test_every_message_of_the_troubleshooting_page_is_said_by_the_code(repository_root: Path, program: Program) -> None:
    """`…` stands for what the program fills in; the rest must stand, in this order, in one message."""
    said = {text for text, _ in [*messages.raised(program), *messages.warnings(program), *messages.remedies(program)]}
    said.add((repository_root / ".ci" / "setup").read_text(encoding="utf-8"))
    page = (repository_root / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    rows = FIRST_COLUMN.findall(page)
    quoted = [one for cell, _ in rows for one in re.findall(r"`([^`]+)`", cell)]
    assert len(rows) == page.count("\n| `") and len(quoted) > 60
    assert gone(quoted, said) == []
    never = ["nobody says this", "is not UTF-8 … nobody says this", "in it … no parameter"]
    assert gone([*never, "no dvc.yaml in … or above it"], said) == never


def test_every_link_of_the_troubleshooting_page_leads_to_a_heading(repository_root: Path) -> None:
    page = repository_root / "docs" / "troubleshooting.md"
    links = re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8"))
    assert len(links) > 10
    assert [one for one in links if not leads_somewhere(page, one)] == []
    broken = ["gone.md", "guides/real-models.md#no-such-heading", "#no-such-heading"]
    assert [one for one in [*broken, "concepts.md#the-words", "#safety"] if not leads_somewhere(page, one)] == broken


def gone(quoted: list[str], said: set[str]) -> list[str]:
    patterns = {one: re.compile(".*".join(re.escape(piece.strip()) for piece in one.split("…")), re.DOTALL) for one in quoted}
    return [one for one, pattern in patterns.items() if not any(pattern.search(text) for text in said)]


def leads_somewhere(page: Path, link: str) -> bool:
    """To a file that is there, and to a heading in it, where the link names one."""
    name, _, anchor = link.partition("#")
    file = page.parent / name if name else page
    return file.is_file() and (not anchor or anchor in anchors(file))


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_page_of_messages_has_what_is_said(repository_root: Path, program: Program) -> None:
    page = messages.page(repository_root, program)
    assert page.count("\n| `") > 700
    assert "| `the two transcripts have no persona in common that both were scored on; converse with the same personas` | " in page
    warned, advised = page.partition("\n## Warnings and notes\n")[2].split("\n## rlver doctor\n")
    for warning in ("train.learning_rate … is for a smaller model", "the scripted user misses most acts in free English"):
        assert f"| `{warning}" in warned
    checks = {name for cell in re.findall(r"\| `([^`|]+)` \|$", advised, flags=re.MULTILINE) for name in cell.split(", ")}
    without = {"weights"}  # these are never bad
    assert checks | without == {
        *re.findall(r'^        "([a-z ]+)": ', (repository_root / messages.DOCTOR).read_text(), flags=re.M),
        "policy server",
    }


def test_texts_are_found_where_they_are_built() -> None:
    source = """
GONE = "the other side is gone"
class Wrong(ValueError):
    def __init__(self, where):
        super().__init__(f"{where}: nothing is right; take another")
def advice(x):
    return f"take another {x}, please"
def f(x):
    if x:
        raise ValueError(f"{x}: expected a number, got {x!r}")
    if not x:
        raise OSError(GONE)
    error = RuntimeError(7, f"made before, {x}".strip())
    raise OSError("no such file here" if x else advice(x))
def g(x):
    if problem := faults(x):
        raise ValueError(f"{x}: {problem[0]}")
    raise Wrong(f"line {x}")
def faults(x):
    found = []
    found.append("one line is too long")
    if x:
        found += [f"line {x} is empty"]
    return found
"""
    found = [
        "line … is empty",
        "made before, …",
        "no such file here",
        "one line is too long",
        "take another …, please",
        "the other side is gone",
        "…: expected a number, got …",
        "…: nothing is right; take another",
    ]
    assert sorted({text for text, _ in messages.raised(Program({"a.py": source}))}) == found
    assert list(messages.unfound(Program({"a.py": source}))) == []
    for nothing in ("raise StopIteration", "raise ValueError('short')", "raise typer.Exit(1)"):
        assert list(messages.raised(Program({"a.py": nothing}))) == []
    passed_on = "def f(x):\n    try:\n        x()\n    except OSError as error:\n        raise ValueError(f'{x}: {error}')"
    assert list(messages.unfound(Program({"a.py": passed_on}))) == [("a.py", "ValueError(f'{x}: {error}')")]


def test_warnings_and_notes_are_found() -> None:
    source = """
def f(logger, told, x):
    logger.warning("%s: that is much", x)
    told.say("warning", f"{x} is more than usual")
    told.say("note", "this is no warning")
    print(f"warning: {x} is too much", file=sys.stderr)
    typer.echo("left out here", err=True)
    print("this is a result")
"""
    found = ["…: that is much", "… is more than usual", "… is too much", "left out here"]
    assert [text for text, _ in messages.warnings(Program({"a.py": source}))] == found


def test_every_message_is_on_the_page_or_passes_on_what_another_said(program: Program) -> None:
    left = set(messages.unfound(program))
    assert not left - set(SAID_BY_OTHERS), "give the text to the error itself, or say above whose words these are"
    assert not set(SAID_BY_OTHERS) - left, "these are gone, or have a text that is found: take them out above"


def test_every_page_that_a_message_names_is_there(repository_root: Path) -> None:
    """With its heading, where the message names one (`docs/a.md#part`)."""
    sources = [path for layer in messages.LAYERS for path in (repository_root / layer).rglob("*.py")]
    named = {found for path in sources for found in re.findall(r"(?<!'s )docs/[\w/-]+\.md(?:#[\w-]+)?", path.read_text(encoding="utf-8"))}
    assert "docs/guides/real-models.md#install-for-cpu-or-gpu" in named
    assert [one for one in named if not leads_somewhere(repository_root / "README.md", one)] == []
