"""Functions that read foreign text, each with 100 KB of hostile strings. Run as a program: "everything", or those that "fell" once."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

from rlver.components.ability.tasks import code_of, is_right
from rlver.components.domain.persona import PersonaKind
from rlver.components.domain.printable import one_line, printable, whole_characters
from rlver.components.domain.thinking import separate_thought, split_thought
from rlver.components.labels import labelled as labels
from rlver.components.personas.profiles import labelled, scene_parts
from rlver.components.scoring import acts
from rlver.components.users.distilled.features import shape
from rlver.components.users.distilled.ngrams import read
from rlver.components.users.llm import answers as wording
from rlver.components.users.llm import prompts as quoting
from rlver.components.users.llm.answers import json_object
from rlver.components.users.scripted.reading import read_reply, words_of
from rlver.components.users.special import rule, signs
from rlver.tasks.commands.licences import kind_of
from rlver.tasks.runtime.chat_server.completion_request import Refused, read_request
from rlver.tasks.studies.authoring import originals as alike
from rlver.tasks.studies.honesty import grading

SIZE, SECONDS = 100_000, 1.0


def weighed(kind: PersonaKind) -> Callable[[str], object]:
    """What a user of the kind makes of a text that is message and reply, after the same."""
    heard = SimpleNamespace(acts=defaultdict(lambda: 0.5), quality=defaultdict(lambda: 0.5), value=0.0)

    def weighed(text: str) -> list[object]:
        answered = rule.Answered(text, rule.Read(text, heard), rule.Read(text, heard))
        return list(rule.weigh(kind, answered, [answered]))

    return weighed


def hearing() -> dict[str, Callable[[str], object]]:
    """Of the user who hears. PyTorch is imported here, since the other readers do without."""
    from rlver.components.domain.packages import NotFetched
    from rlver.components.users.heard.appraiser import has_end
    from rlver.components.users.heard.circumstances import circumstances
    from rlver.components.users.heard.reading import reader
    from rlver.components.users.scripted.new import new_in

    found: dict[str, Callable[[str], object]] = {
        "has_end": has_end,
        "new_in": lambda text: new_in(text, (text,)),
        "circumstances": lambda text: circumstances(text, text, text),
    }
    with suppress(NotFetched):
        reader().hear("Hello.", "Hi.")  # loads the models
        found["hear"] = lambda text: reader().hear(*[whole_characters(text)] * 3)
    return found


def labelled_file(text: str) -> object:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "style.txt"
        file.write_text(f"@ one\nU: two\nR [{text}\nB: user:{text}\n", encoding="utf-8", errors="replace")
        return list(labels.read_style(file))


def asked(text: str) -> object:
    """A request to `rlver serve`: the text as it comes, and as what somebody says and where replies stop."""
    said = json.dumps({"model": text, "messages": [{"role": "user", "content": text}] * 3, "stop": text, text[:50]: 1}).encode()
    for body in (text.encode(errors="replace"), said):
        with suppress(Refused):
            read_request(body)
    return None


FELL: dict[str, tuple[Callable[[str], object], str]] = {
    "code_of": (code_of, "```" + " " * SIZE),
    "code_of with a label": (code_of, "```python" + "\t \r" * (SIZE // 3)),
    "is_right": (lambda text: is_right(text, "1"), "\\boxed{\\text{" + " " * SIZE + "{1}}}"),
    "scene_parts": (scene_parts, "#" * SIZE),
    "scene_parts of blank lines": (scene_parts, "\n" * SIZE + "x"),
    "labelled": (lambda text: labelled(text, "年龄"), "\n" * SIZE + "x"),
    "shape": (shape, "\n" * SIZE + "x"),
    "quoted": (lambda text: quoting._STRING.sub("", text), '"\\' * (SIZE // 2)),
    "label of an answer": (wording._LABEL.search, " " * SIZE + "x"),
    "licence": (kind_of, " " * SIZE),
    "grade": (lambda text: grading.grade(text, ["arm"], ["upper arm bone"]), "upper arm bone " * (SIZE // 15)),
}
EVERYTHING: dict[str, Callable[[str], object]] = {
    **{name: function for name, (function, _) in FELL.items()},
    **{f"signs {kind}": lambda text, kind=kind: signs.find(kind, text, text, text, {}) for kind in signs.SIGNS},  # type: ignore[misc]
    **{f"rule {kind}": weighed(kind) for kind in signs.SIGNS},
    "grade": lambda text: grading.grade(text, ["six", "9", "arm"], ["is it", "you", "upper arm bone"]),
    "request": asked,
    "labels": labelled_file,
    "separate_thought": separate_thought,
    "split_thought": lambda text: split_thought(text, thinking=True),
    "read_reply": read_reply,
    "words_of": words_of,
    "words of acts": acts.words_of,
    "words of scenarios": alike.words_of,
    "n-grams": lambda text: read(text).pairs,
    "json_object": json_object,
    "quoting": lambda text: quoting.quoted({"text": text}),
    "language of an answer": lambda text: wording.language_fault(text, "zh"),
    "printable": printable,
    "one_line": one_line,
}
HOSTILE = [
    *("a", " ", "\n", "\t \n", "\\", '"', "```", "```\n", "<think>", "</think>", "{", "[", "{\"a\":", "\\boxed{", "\\text{", "A's ", "you ", "- 1. ", "## "),
    *("隐藏主题", "隐藏主题：\n", "中", "…", "é", "\U0001f600", "you feel that you are right, ", "six is it ", "one hundred ", "is it. ", "\x00", "\ud800", "9", "1,", "http://a:b@"),
]  # fmt: skip


def slowest(name: str, function: Callable[[str], object], texts: list[str]) -> None:
    """Raises AssertionError for more than SECONDS of work."""
    for text in texts:
        begun = time.process_time()
        with suppress(ValueError):  # that it is no answer may be said
            function(text)
        taken = time.process_time() - begun
        assert taken <= SECONDS, f"{name} takes {taken:.1f} s for {text[:20]!r}"


if __name__ == "__main__":
    if sys.argv[1] == "everything":
        for reader, function in {**EVERYTHING, **hearing()}.items():
            slowest(reader, function, [(piece * SIZE)[:SIZE] + end for piece in HOSTILE for end in ("", "x")])
    else:
        for reader, (function, text) in FELL.items():
            print(reader, flush=True)  # the last word of a process that hangs
            slowest(reader, function, [text])
    sys.stdout.write("read in time\n")
