"""A project in which every stage has run, as files and as what dvc.lock says of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlver.components.domain.transcript import Appraisal, Dialogue, Evidence, SimulatorTag, StopReason, Turn
from rlver.tasks.graph.dvc import LockedStage
from rlver.tasks.tracking import records

DATA, MODEL, LOGS, TALKS, SCORES = ("a" * 32, "b" * 32 + ".dir", "c" * 32 + ".dir", "d" * 32, "e" * 32)


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def dialogue(name: str, **other: Any) -> Dialogue:
    """Two turns, +5 each, from 40 to 50."""
    evidence = Evidence(step="target", what="serves_need", span="hello", points=4.5)
    seen = Appraisal(
        content="It greets me.", target="It is what I came for.", activity="Go on.", feeling="seen", change=5, evidence=(evidence,)
    )
    said = Turn(user="hi", assistant="hello", think="be kind", cue=True, appraisal=seen)
    return Dialogue(
        **{
            "dialogue_id": name,
            "persona_id": f"p-{name}",
            "hidden_need": "guidance",
            "policy": "v",
            "seed": 7,
            "simulator": SimulatorTag(kind="scripted", difficulty="vanilla", version="scripted-3"),
            "emotion_start": 40,
            "emotion_final": 50,
            "stop_reason": StopReason.GOODBYE,
            "turns": tuple(said.model_copy(update={"emotion": emotion}) for emotion in (45, 50)),
            **other,
        }
    )


def make(root: Path) -> Path:
    """A project in which every stage has run."""
    write(root / "data/personas/train.jsonl", "".join(json.dumps({"persona_id": f"p{n}", "age": n, "story": {}}) + "\n" for n in range(5)))
    write(root / "data/personas/test.jsonl", json.dumps({"persona_id": "t1", "background": "a flat", "hidden_need": "guidance"}) + "\n")
    write(root / "models/v/config.json", "{}")
    write(root / "models/v/model.safetensors", "weights")
    write(root / "logs/v/train.csv", "step,loss,emotion_mean,note\n" + "".join(f"{n},{n / 2},{n % 100},x\n" for n in range(1, 1502)))
    write(root / "logs/v/evaluation.csv", "step,emotion_mean\n20,30.5\n40,61\n")
    write(root / "transcripts/v.jsonl", "".join(dialogue(f"d{n}").model_dump_json() + "\n" for n in range(30)))
    scores = {
        "n": 100,
        "emotion_mean": 50.5,
        "emotion_ci95": [40, 61],
        "success_rate": 0.2,
        "by_need": {"guidance": {"n": 12}},
        "note": "x",
    }
    write(root / "metrics/v/sentient.json", json.dumps(scores))
    write(root / "reports/index.html", "<p>")
    return root


LOCK: Mapping[str, LockedStage] = {
    stage.name: stage
    for stage in (
        LockedStage("personas", {"params.yaml": {"seed": 7, "personas": {"train": 5}}}, {}, {"data/personas": DATA + ".dir"}),
        LockedStage(
            "train@v",
            {"params/v.yaml": {"train": {"learning_rate": 2e-5}}, "params.yaml": {"seed": 7, "train": {"learning_rate": 1e-5, "steps": 3}}},
            {"data/personas/train.jsonl": DATA},
            {"models/v": MODEL, "logs/v": LOGS},
        ),
        LockedStage("converse@v", {}, {"models/v": MODEL}, {"transcripts/v.jsonl": TALKS}),
        LockedStage("score@v", {}, {"transcripts/v.jsonl": TALKS}, {"metrics/v/sentient.json": SCORES}),
        LockedStage("report", {}, {"metrics/v/sentient.json": SCORES}, {"reports": "f" * 32 + ".dir"}),
    )
}


def read(root: Path) -> list[records.StageRecord]:
    return [records.read(root, name, LOCK) for name in LOCK]
