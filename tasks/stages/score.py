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
from rlver.components.scoring.units import Sampling, Units
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
    classes, scenarios = _classes_and_scenarios(args.personas)
    how = Sampling(settings.evaluation.bootstrap_samples, settings.seed, Units(scenarios))
    metrics = sentient_metrics(
        dialogues,
        None if is_base else load_transcripts(args.base, rules),
        how,
        classes=classes,
        settings_digest=digest_of({"seed": settings.seed, **settings.model_dump(mode="json", include={"simulator", "evaluation"})}),
    )
    write_json(args.out, {**metrics, "portrait": portrait(dialogues, how)})
    return 0


def _classes_and_scenarios(path: Path) -> tuple[dict[str, str], dict[str, str]]:
    """The class of each persona, and the scenario of each that has one; imported personas have none.

    Raises BadFile with every line that lacks a class.
    """
    classes, scenarios, lacking = dict[str, str](), dict[str, str](), list[str]()
    for number, row in read_jsonl(path):
        name, named, story = row.get("persona_id"), row.get("persona_class"), row.get("story")
        if not (isinstance(name, str) and isinstance(named, str)):
            lacking.append(str(number))
            continue
        classes[name] = named
        if isinstance(story, dict) and "scenario_id" in story:
            scenarios[name] = str(story["scenario_id"])
    if lacking:
        raise BadFile(f"{path}:{', '.join(lacking)}: a persona needs persona_id and persona_class")
    return classes, scenarios


if __name__ == "__main__":
    sys.exit(run_stage(main))
