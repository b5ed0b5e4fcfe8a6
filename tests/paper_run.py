"""A paper run as files, from a seed: both users, several seeds, logs and benchmarks, with the settings of the repository's overlays."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from report_run import make_dialogues, write_benchmark, write_logs

from rlver.components.domain.files import write_json, write_jsonl
from rlver.components.scoring.sentient import sentient_metrics
from rlver.components.scoring.units import Sampling
from rlver.components.settings.settings import load_settings
from rlver.tasks.studies.paper.material import USERS, PlannedPolicy, kind_of

ROOT = Path(__file__).parents[1]
SKILLS = {
    "base-think": 0.1, "base-direct": 0.1, "ppo-think-s7": 0.75, "ppo-think-s8": 0.7, "grpo-think-s7": 0.6, "grpo-think-s8": 0.6,
    "ppo-direct-s7": 0.4, "grpo-direct-s7": 0.4, "ppo-think-challenging-s7": 0.5, "ppo-direct-challenging-s7": 0.2,
}  # fmt: skip


def run_of(name: str, root: Path) -> PlannedPolicy:
    """base-think, or a variant with its seed: ppo-think-s8."""
    if name.startswith("base"):
        settings = load_settings(ROOT / "params.yaml", "base-direct" if name == "base-direct" else "base")
        return PlannedPolicy(name, kind_of(settings, is_base=True), 7, name, root / "logs" / "base")
    variant, _, seed = name.rpartition("-s")
    kind = kind_of(load_settings(ROOT / "params.yaml", variant), is_base=False)
    return PlannedPolicy(name, kind, int(seed), "base-think" if kind.thinking else "base-direct", root / "logs" / name)


def write_paper_run(root: Path, skills: Mapping[str, float] = SKILLS, personas: int = 12) -> list[PlannedPolicy]:
    """transcripts/, metrics/ and logs/ of every policy; returns what was planned."""
    runs = [run_of(name, root) for name in skills]
    for user in USERS:
        talks = {}
        for run in runs:
            dialogues = make_dialogues(run.name, personas, skills[run.name] - (0.1 if user != USERS[0] else 0), 7)
            tag = dialogues[0].simulator.model_copy(update={"difficulty": user})
            talks[run.name] = [dialogue.model_copy(update={"simulator": tag}) for dialogue in dialogues]
        for run in runs:
            write_jsonl(root / "transcripts" / run.name / f"{user}.jsonl", [one.model_dump(mode="json") for one in talks[run.name]])
            base = None if run.is_base else talks[run.base]
            write_json(root / "metrics" / run.name / f"{user}.json", sentient_metrics(talks[run.name], base, Sampling(200, 7)))
    for position, run in enumerate(runs):
        write_benchmark(root, run.name, 0.002 * position, 7)
        if not run.is_base:
            write_logs(root, run.name, 60, 80 - 3 * position, position)
    return runs
