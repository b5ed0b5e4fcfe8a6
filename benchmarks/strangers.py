"""Dialogues drawn by seed and read by strangers, and one before and after training, as Markdown.

    python -m benchmarks.strangers sheet TRAINED OTHER … --count 20 -o FOLDER   # what readers get: mixed, unnamed; and the key
    python -m benchmarks.strangers page FOLDER READER_A READER_B …              # docs/pretrained-dialogues.md: counts, and TRAINED's dialogues
    python -m benchmarks.strangers face BEFORE AFTER                            # the persona of the median gain, as a table

TRAINED, OTHER, BEFORE and AFTER are transcript files. Of each as many dialogues are drawn, with the same seed. A reader marks each reply with
one line `D01.3 yes no`: is it English, and does it answer what was said (RULE)? Unscorable dialogues are drawn like others.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from statistics import fmean

from rlver.components.domain.files import write_text_atomically
from rlver.components.domain.transcript import Dialogue
from rlver.components.report import wording
from rlver.components.report.dialogues import same_persona_pairs
from rlver.components.rollout.transcripts import load_transcripts
from rlver.components.scoring.statistics import Interval, by_cluster, paired_differences, paired_mean

COUNT, SEED = 20, 7
SAMPLES = 10_000  # of the bootstrap
RULE = """**English**: words that a speaker of English could say in this order; small slips of grammar are allowed, a sentence that breaks off
or words that mean nothing together are not. **Answers**: read after the messages so far, the reply takes up something that was said, or
does what the last message asks for, and is true to it. A reply that would stand as well under any message, that says what nobody told, or
that mixes up who did what does not answer. A reply that is not English does not answer either."""
MARK = re.compile(r"(D\d+\.\d+)\s+(yes|no)\s+(yes|no)")
Marks = Mapping[str, tuple[bool, bool]]  # of each reply: English, answers


def drawn(dialogues: Sequence[Dialogue], count: int, seed: int) -> list[Dialogue]:
    """`count` dialogues, or all; the same for the same ids and seed, in the order of their ids."""
    chosen = Random(f"strangers-{seed}").sample(sorted(dialogues, key=lambda d: d.dialogue_id), min(count, len(dialogues)))
    return sorted(chosen, key=lambda d: d.dialogue_id)


def sheet_and_key(files: Sequence[Path], count: int, seed: int) -> tuple[str, str]:
    """The sheet: dialogues of all files in one random order under names D01, D02, …; the key, in the files' order: name, file, dialogue."""
    named = [(file, dialogue) for file in files for dialogue in drawn(load_transcripts(file), count, seed)]
    Random(f"order-{seed}").shuffle(named)
    key: list[tuple[int, str, str]] = []
    lines = ["# Read each dialogue from its top. Mark each reply (R).", "", RULE, ""]
    for number, (file, dialogue) in enumerate(named, start=1):
        name = f"D{number:02}"
        lines += [f"## {name}", ""]
        for place, turn in enumerate(dialogue.turns, start=1):
            lines += [f"U: {_one_line(turn.user)}", f"R {name}.{place}: {_one_line(turn.assistant)}", ""]
        key.append((files.index(file), dialogue.dialogue_id, f"{name}\t{file}\t{dialogue.dialogue_id}\n"))
    return "\n".join(lines), "".join(line for *_, line in sorted(key))


def marks_of(file: Path) -> Marks:
    """The marks of one reader. Raises ValueError where a line is not one, or a reply is marked twice."""
    marks: dict[str, tuple[bool, bool]] = {}
    for number, line in enumerate(file.read_text().splitlines(), start=1):
        if not line.strip():
            continue
        found = MARK.fullmatch(line.strip())
        if found is None or found[1] in marks:
            raise ValueError(f"{file}:{number}: not a mark, or a second one of this reply: {line!r}")
        english = found[2] == "yes"
        marks[found[1]] = (english, english and found[3] == "yes")
    return marks


def page(folder: Path, readers: Sequence[Marks]) -> Iterator[str]:
    """Counts of each file, then the dialogues of the first one with the marks of each reader; raises ValueError where a mark is missing."""
    by_file: dict[str, list[tuple[str, Dialogue]]] = {}
    for line in (folder / "key.tsv").read_text().splitlines():
        name, file, dialogue_id = line.split("\t")
        found = {dialogue.dialogue_id: dialogue for dialogue in load_transcripts(Path(file))}
        by_file.setdefault(file, []).append((name, found[dialogue_id]))
    yield from counts({Path(file).stem: changes_of(named) for file, named in by_file.items()}, readers)
    first, *others = ((Path(file).stem, answering(named, readers)) for file, named in by_file.items())
    for other in others:
        yield from more_or_less(first, other)
    for name, dialogue in next(iter(by_file.values())):
        yield from _shown(name, dialogue, readers)


def changes_of(named: Sequence[tuple[str, Dialogue]]) -> dict[str, int | None]:
    """Each reply by its name, and how the user's emotion changed after it."""
    return {
        f"{name}.{place}": None if turn.appraisal is None else turn.appraisal.change
        for name, dialogue in named
        for place, turn in enumerate(dialogue.turns, start=1)
    }


def answering(named: Sequence[tuple[str, Dialogue]], readers: Sequence[Marks]) -> dict[str, list[float]]:
    """By persona, the share of the replies that answer, each reader's marks alike."""
    return by_cluster(
        (dialogue.persona_id, fmean(reader[reply][1] for reader in readers for reply in changes_of([(name, dialogue)])))
        for name, dialogue in named
        if dialogue.turns
    )


def more_or_less(first: tuple[str, dict[str, list[float]]], other: tuple[str, dict[str, list[float]]]) -> Iterator[str]:
    """How much more of a dialogue answers in the first file, over the personas that both talked with."""
    apart = paired_differences(first[1], other[1])
    if len(apart) > 1:
        found = paired_mean(apart, SAMPLES, SEED, Interval(-1.0, 1.0))
        low, high = (f"{100 * end:+.0f}" for end in (found.ci95.low, found.ci95.high))
        yield (
            f"Replies of a dialogue that answer, `{first[0]}` less `{other[0]}`: {100 * found.value:+.0f} points "
            f"[{low}, {high}], over {len(apart)} personas."
        )
        yield ""


def counts(replies: Mapping[str, Mapping[str, int | None]], readers: Sequence[Marks]) -> Iterator[str]:
    if missing := [reply for of_file in replies.values() for reply in of_file for reader in readers if reply not in reader]:
        raise ValueError(f"{len(missing)} marks are missing, the first of {missing[0]}")
    yield (
        "| replies of | replies | not English, by all readers (by one at least) | do not answer, by all (by one at least) | all agree "
        "| change of emotion where all find an answer, where none does |"
    )
    yield "|---|---|---|---|---|---|"
    for stem, of_file in replies.items():
        cells = []
        for question in (0, 1):
            bad = [sum(not reader[reply][question] for reader in readers) for reply in of_file]
            found_by_all, found_by_one = sum(count == len(readers) for count in bad), sum(count > 0 for count in bad)
            cells.append(f"{found_by_all} ({found_by_one})")
        changes: dict[bool, list[int]] = {True: [], False: []}  # of the replies on which all agree
        agree = 0
        for reply, change in of_file.items():
            said = {reader[reply][1] for reader in readers}
            agree += len(said) == 1
            if len(said) == 1 and change is not None:
                changes[said.pop()].append(change)
        paid = ", ".join(f"{fmean(changes[answers]):+.1f}" if changes[answers] else "-" for answers in (True, False))
        yield f"| `{stem}` | {len(of_file)} | {cells[0]} | {cells[1]} | {agree / len(of_file):.0%} | {paid} |"
    yield ""


def _shown(name: str, dialogue: Dialogue, readers: Sequence[Marks]) -> Iterator[str]:
    ends = "unscorable" if dialogue.emotion_final is None else f"{dialogue.emotion_start} → {dialogue.emotion_final}"
    yield f"## {dialogue.persona_id}: {wording.readable(dialogue.hidden_need)}, {ends}"
    yield ""
    yield "| the user says | the model | change | answers |"
    yield "|---|---|---|---|"
    for place, turn in enumerate(dialogue.turns, start=1):
        change = "" if turn.appraisal is None else f"{turn.appraisal.change:+}"
        marks = " / ".join(
            "not English" if not english else "yes" if answers else "no" for english, answers in (r[f"{name}.{place}"] for r in readers)
        )
        yield f"| {_cell(turn.user)} | {_cell(turn.assistant)} | {change} | {marks} |"
    yield ""


def face(before: Path, after: Path) -> Iterator[str]:
    """The persona whose gain is the median one, as the report chooses it: each turn of both dialogues."""
    pair = next(pair for pair in same_persona_pairs(load_transcripts(before), load_transcripts(after)) if pair.label == "median gain")
    yield f"{pair.before.persona_id}: {pair.before.hidden_need}, {pair.before.emotion_final} before, {pair.after.emotion_final} after"
    yield ""
    for dialogue in (pair.before, pair.after):
        yield f"| the user says | {dialogue.policy} (ends at {dialogue.emotion_final}) |"
        yield "|---|---|"
        for turn in dialogue.turns:
            change = "" if turn.appraisal is None else f" **{turn.appraisal.change:+}**"
            yield f"| {_cell(turn.user)} | {_cell(turn.assistant)}{change} |"
        yield ""


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _cell(text: str) -> str:
    """A table's cell: one line, no mark-up of its own."""
    return re.sub(r"([|*_`<>\[\]\\])", r"\\\1", _one_line(text))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("sheet", "page", "face"))
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("-o", "--out", type=Path, default=Path("strangers"), help="the folder of the sheet")
    arguments = parser.parse_args()
    if arguments.what == "sheet":
        sheet, key = sheet_and_key(arguments.files, arguments.count, arguments.seed)
        arguments.out.mkdir(parents=True, exist_ok=True)
        write_text_atomically(arguments.out / "sheet.md", sheet)
        write_text_atomically(arguments.out / "key.tsv", key)
        return 0
    made = (
        page(arguments.files[0], [marks_of(file) for file in arguments.files[1:]]) if arguments.what == "page" else face(*arguments.files)
    )
    print("\n".join(made))
    return 0


if __name__ == "__main__":
    sys.exit(main())
