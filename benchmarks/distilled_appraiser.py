"""Speed and figures of a distilled appraiser on one core: `python -m benchmarks.distilled_appraiser FOLDER RECORDINGS...`.

Every reply of the recordings is appraised once, with all its reasons, in processor time. The baseline, in the same run on the same
texts, is reading each text once without judging it.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

from rlver.components.domain.protocols import UnfamiliarUser
from rlver.components.users.distilled import features as measures
from rlver.components.users.distilled import ngrams
from rlver.components.users.distilled.appraiser import FollowedDialogue, appraisals
from rlver.components.users.distilled.features import known_from, moments_of
from rlver.components.users.distilled.folder import read_folder
from rlver.tasks.studies.distil.recordings import recorded


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.distilled_appraiser", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("recordings", type=Path, nargs="+")
    args = parser.parse_args()
    model = read_folder(args.folder)
    dialogues = [dialogue for path in args.recordings for dialogue in recorded(path)]
    begin = time.process_time()
    for dialogue in dialogues:
        for turn in dialogue.turns:
            ngrams.read(turn.assistant), ngrams.read(turn.user)
    reading = time.process_time() - begin
    ngrams.read.cache_clear()
    measures.shape.cache_clear()
    begin, judged_alone = time.process_time(), 0
    for dialogue in dialogues:
        known = known_from(dialogue.hidden_need, dialogue.original, None)
        followed = FollowedDialogue(model, known.need)
        for moment in moments_of(known, [turn.user for turn in dialogue.turns], [turn.assistant for turn in dialogue.turns]):
            followed.judge(moment)
            judged_alone += 1
    alone = time.process_time() - begin
    print(f"{judged_alone} judgements without reasons in {alone:.1f} s of processor time: {judged_alone / max(alone, 1e-9):,.0f}/s")
    ngrams.read.cache_clear()
    measures.shape.cache_clear()
    begin, done, abstained, unreadable = time.process_time(), 0, 0, 0
    for dialogue in dialogues:
        try:
            judged = appraisals(model, known_from(dialogue.hidden_need, dialogue.original, None), dialogue.turns)
        except UnfamiliarUser:
            abstained += 1
            continue
        done += len(judged)
        unreadable += sum(not any(item.what.startswith("sure:") for item in one.evidence) for one in judged)
    seconds = time.process_time() - begin
    size = sum(path.stat().st_size for path in args.folder.iterdir()) / 1e6
    print(
        f"{done} appraisals in {seconds:.1f} s of processor time: {done / max(seconds, 1e-9):,.0f}/s, {seconds / max(reading, 1e-9):.1f}x bare reading"
    )
    print(f"{size:.1f} MB; {abstained} of {len(dialogues)} dialogues abstained from; {unreadable} replies taken for none")
    card = json.loads((args.folder / "fidelity.json").read_text(encoding="utf-8"))
    for name, figures in card["splits"].items():
        told, free = figures["teacher_forced"], figures["free_running"]
        print(f"held out, {name}: {figures['dialogues']} dialogues")
        for what, figure in (
            ("teacher-forced r", told["expected"]["r"]),
            ("teacher-forced sign accuracy", told["change"]["sign_accuracy"]),
            ("free-running r per dialogue", free["dialogue_mean_r"]),
            ("free-running final r", free["final_r"]),
        ):
            print(f"  {what:32}{figure['value']}  {figure['ci95']}")


if __name__ == "__main__":
    main()
