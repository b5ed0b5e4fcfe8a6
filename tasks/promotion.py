"""A variant on its way into the registry: what DVC and the folder know of it, and its model card."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.evaluation.model_card import Facts, model_card
from components.evaluation.promotion import Condition, Evidence
from components.evaluation.transcripts import load_transcripts
from components.settings import Settings, load_settings
from tasks import dvc, records
from tasks.registry import EVIDENCE

BASE = "base"
_STAGES = ("train", "converse", "score", "benchmark")


class NotReady(ValueError):
    """The variant cannot be judged yet; the message says what to run."""


@dataclass(frozen=True)
class Candidate:
    """A variant whose stages are up to date. `files` are its evidence by the name it has in the registry."""

    variant: str
    md5: str
    evidence: Evidence
    files: Mapping[str, Path]
    facts: Facts
    settings: Settings
    tags: Mapping[str, str]

    def card(self, found: Sequence[Condition]) -> str:
        return model_card(self.facts, found)


def candidate(root: Path, variant: str) -> Candidate:
    """Everything about a trained variant of the root pipeline. Raises NotReady."""
    known = {step.name for step in dvc.plan(root)}
    stages = [f"{stage}@{variant}" for stage in _STAGES]
    if not set(stages) <= known:
        trained = sorted(name.partition("@")[2] for name in known if name.startswith("train@"))
        raise NotReady(f"{variant} is not a trained variant of dvc.yaml; there is {', '.join(trained) or 'none'}")
    stale = sorted(set(dvc.changed(root, stages)) & {*stages, f"converse@{BASE}", f"benchmark@{BASE}"})
    if stale:
        raise NotReady(f"out of date: {', '.join(stale)}; run `rlver run` first, so that what is promoted is what was measured")
    lock = dvc.locked(root)
    md5 = next(md5 for path, md5 in lock[f"train@{variant}"].outputs.items() if records.kind(path) == "models")
    settings = load_settings(root / "params.yaml", variant)
    files = _files(root, variant)
    revision = records.revision(root)
    tags = {"git_commit": revision.commit, "git_dirty": str(revision.dirty).lower()} if revision else {}
    return Candidate(
        variant=variant,
        md5=md5,
        evidence=_evidence(variant, files),
        files=files,
        facts=Facts(
            variant=variant,
            base="a tiny model trained from nothing by this project" if settings.base.kind == "tiny" else str(settings.base.model),
            own_base=settings.base.kind == "tiny",
            parameters=records.effective_parameters(lock[f"train@{variant}"].parameters),
            data={path: md5 for path, md5 in lock[f"train@{variant}"].dependencies.items() if records.kind(path) == "data"},
            sentient=_json(root / "metrics" / variant / "sentient.json"),
            md5=md5,
            commit=f"{revision.commit[:12]}{' with changes' if revision.dirty else ''}" if revision else "none",
        ),
        settings=settings,
        tags=tags,
    )


def base_evidence(root: Path) -> Evidence:
    """The untrained policy, which stands in for the champion while there is none."""
    return _evidence(BASE, _files(root, BASE))


def _files(root: Path, variant: str) -> dict[str, Path]:
    metrics = root / "metrics" / variant
    there = dict(zip(EVIDENCE, (root / "transcripts" / f"{variant}.jsonl", metrics / "general.json", metrics / "audit.json"), strict=True))
    return {name: path for name, path in there.items() if path.is_file()}


def _evidence(variant: str, files: Mapping[str, Path]) -> Evidence:
    transcripts, general, audit = EVIDENCE
    return Evidence(variant, load_transcripts(files[transcripts]), _json(files.get(general)), _json(files.get(audit)))


def _json(path: Path | None) -> Any:
    return json.loads(path.read_text(encoding="utf-8")) if path else None
