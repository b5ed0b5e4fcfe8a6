"""Stage score: transcripts -> metrics/<variant>/sentient.json. Free to rerun; nothing but the transcripts is measured."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rlver.components.domain.files import BadFile, read_jsonl, write_json
from rlver.components.rollout.transcripts import load_transcripts, uncollected
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
    dialogues = load_transcripts(args.transcripts, rules)
    is_base = args.transcripts.resolve() == args.base.resolve()
    metrics = sentient_metrics(
        dialogues,
        None if is_base else load_transcripts(args.base, rules),
        settings.evaluation.bootstrap_samples,
        settings.seed,
        classes=_classes(args.personas),
        scenarios=_scenarios(args.personas),
        settings_digest=digest_of({"seed": settings.seed, **settings.model_dump(mode="json", include={"simulator", "evaluation"})}),
    )
    drawn = portrait(dialogues, settings.evaluation.bootstrap_samples, settings.seed)
    write_json(args.out, {**metrics, "portrait": drawn})
    return 0


def _classes(path: Path) -> dict[str, str]:
    """The class of each persona. Raises BadFile with every line that lacks one."""
    classes: dict[str, str] = {}
    lacking: list[str] = []
    for number, row in read_jsonl(path):
        named = [row.get(name) for name in ("persona_id", "persona_class")]
        if all(isinstance(one, str) for one in named):
            classes[row["persona_id"]] = row["persona_class"]
        else:
            lacking.append(str(number))
    if lacking:
        raise BadFile(f"{path}:{', '.join(lacking)}: a persona needs persona_id and persona_class")
    return classes


def _scenarios(path: Path) -> dict[str, str]:
    """The scenario of each persona that has one; imported personas have none."""
    stories = ((str(row["persona_id"]), row.get("story")) for _, row in read_jsonl(path))
    return {persona: str(story["scenario_id"]) for persona, story in stories if isinstance(story, dict) and "scenario_id" in story}


if __name__ == "__main__":
    sys.exit(run_stage(main))
