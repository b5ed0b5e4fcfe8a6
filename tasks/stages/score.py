"""Stage score: transcripts -> metrics/<variant>/sentient.json. Free to rerun; nothing but the transcripts is measured."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rlver.components.domain.files import BadFile, read_jsonl, write_json
from rlver.components.rollout.transcripts import uncollected
from rlver.components.scoring.dialogue_table import load_scored
from rlver.components.scoring.portrait import portrait
from rlver.components.scoring.sentient import sentient_metrics
from rlver.components.settings.settings import digest_of, load_settings
from rlver.tasks.runtime.stage import run_stage


@uncollected()
def main(argv: Sequence[str] | None = None) -> int:
    """Score one variant; the base itself has no paired difference."""
    parser = argparse.ArgumentParser(prog="python -m rlver.tasks.stages.score", description=__doc__)
    parser.add_argument("--variant", required=True)
    parser.add_argument("--transcripts", type=Path, required=True)
    parser.add_argument("--base", type=Path, required=True, help="transcripts of the base policy on the same personas")
    parser.add_argument("--personas", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--difficulty", help="of the user, in place of the one in params.yaml")
    parser.add_argument("--params", type=Path, default=Path("params.yaml"))
    args = parser.parse_args(argv)

    settings = load_settings(args.params, args.variant, difficulty=args.difficulty)
    rules = settings.simulator.rules
    dialogues = load_scored(args.transcripts, rules)
    is_base = args.transcripts.resolve() == args.base.resolve()
    metrics = sentient_metrics(
        dialogues,
        None if is_base else load_scored(args.base, rules),
        settings.evaluation.bootstrap_samples,
        settings.seed,
        classes=_classes(args.personas),
        settings_digest=digest_of({"seed": settings.seed, **settings.model_dump(mode="json", include={"simulator", "evaluation"})}),
    )
    drawn = portrait(dialogues, settings.evaluation.bootstrap_samples, settings.seed)
    write_json(args.out, {**metrics, "portrait": drawn})
    return 0


def _classes(path: Path) -> dict[str, str]:
    classes: dict[str, str] = {}
    for number, row in read_jsonl(path):
        if not isinstance(row.get("persona_id"), str) or not isinstance(row.get("persona_class"), str):
            raise BadFile(f"{path}:{number}: a persona needs persona_id and persona_class")
        classes[row["persona_id"]] = row["persona_class"]
    return classes


if __name__ == "__main__":
    sys.exit(run_stage(main))
