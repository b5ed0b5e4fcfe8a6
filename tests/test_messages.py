"""The messages of the code and the pages that list them, in both directions."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "docs" / "site"))
import messages


def test_every_message_of_the_troubleshooting_page_is_in_the_code(repository_root: Path) -> None:
    """`…` stands for what the program fills in; each piece between must be part of one text of the code."""
    sources = [path for layer in ("components", "tasks", "flows") for path in (repository_root / layer).rglob("*.py")]
    nodes = [node for path in sources for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
    texts = "\n".join(node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))
    texts += (repository_root / ".ci" / "setup").read_text()
    page = (repository_root / "docs" / "troubleshooting.md").read_text(encoding="utf-8").partition("\n## After a crash")[0]
    messages = re.findall(r"^\| `([^`]+)` \|", page, flags=re.MULTILINE)
    assert len(messages) > 50
    gone = [message for message in messages if not all(piece.strip() in texts for piece in message.split("…"))]
    assert not gone, "\n".join(gone)


def test_the_page_of_messages_has_what_is_raised(repository_root: Path) -> None:
    page = messages.page(repository_root)
    assert page.count("\n| `") > 500
    assert "| `the two transcripts have no persona in common that both were scored on; converse with the same personas` | " in page
    source = """
GONE = "the other side is gone"
def advice(x):
    return f"take another {x}, please"
def f(x):
    if x:
        raise ValueError(f"{x}: expected a number, got {x!r}")
    if not x:
        raise OSError(GONE)
    error = RuntimeError(7, f"made before, {x}".strip())
    raise OSError("no such file here" if x else advice(x))
"""
    found = ["no such file here", "take another …, please", "the other side is gone", "made before, …", "…: expected a number, got …"]
    assert sorted(set(messages.raised(source, messages.known_in_texts([source])))) == sorted(found)
    assert list(messages.raised("raise StopIteration")) == [] == list(messages.raised("raise ValueError('short')"))


# What a `raise` is given where its text is not on the page of messages, by a pattern of the code, and where the text comes from.
NOT_ON_THE_PAGE = {
    r"typer\.Exit": "says nothing: the exit status of what was printed",
    r"'unreachable'|^NotFinite|context_ids": "a mistake of this program, or caught before a user sees it",
    r"\berror\b|\bfirst\b|first_fault|_first|strerror|hiccup|shown\(first|http\.fault|self\.fault|missing\[": "what another error said, or another program",
    r"problems|unread\[|listed\(|reason\)\]": "lines of a file that were refused, each with its own words",
    r"difference|abstained": "where a transcript differs: the turn, what was expected and what came",
    r"refusal|problem\b|\bfault\b|_fault\b|\bsaid\b|why_ended|held\.error|_begin_again|missing": "put together by the function that found it",
}


def test_every_message_is_on_the_page_or_passes_on_what_another_said(repository_root: Path) -> None:
    known = messages.known_in(repository_root)
    left = [
        (path, code) for path in messages.sources(repository_root) for code in messages.unfound(path.read_text(encoding="utf-8"), known)
    ]
    used = {pattern for pattern in NOT_ON_THE_PAGE for _, code in left if re.search(pattern, code)}
    assert used == set(NOT_ON_THE_PAGE)
    new = [
        f"{path.relative_to(repository_root)}: {code}" for path, code in left if not any(re.search(one, code) for one in NOT_ON_THE_PAGE)
    ]
    assert not new, "give the text to the error itself, or say here where it comes from:\n" + "\n".join(new)
    assert list(messages.unfound("raise ValueError(what)", known)) == ["ValueError(what)"]


def test_every_page_that_a_message_names_is_there(repository_root: Path) -> None:
    """With its heading, where the message names one (`docs/a.md#part`)."""
    named = {
        found
        for path in messages.sources(repository_root)
        for found in re.findall(r"(?<!'s )docs/[\w/-]+\.md(?:#[\w-]+)?", path.read_text(encoding="utf-8"))
    }
    assert "docs/guides/real-models.md#install-for-cpu-or-gpu" in named
    for one in named:
        page, _, anchor = one.partition("#")
        text = (repository_root / page).read_text(encoding="utf-8")
        anchors = {
            re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
        }
        assert not anchor or anchor in anchors, one
