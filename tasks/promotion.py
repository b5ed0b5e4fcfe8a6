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
from components.files import read_json
from components.settings import Settings, load_settings
from tasks import dvc, records
from tasks.registry import EVIDENCE

BASE = "base"
REPORT, AUDITS = "report", Path("reports") / "audit.json"
_STAGES = ("train", "converse", "score", "benchmark")


class NotReady(ValueError):
    """The variant cannot be judged yet; the message says what to run."""


@dataclass(frozen=True)
class Candidate:
    """A variant whose stages are up to date. `texts` are its evidence by the name it has in the registry."""

    variant: str
    md5: str
    evidence: Evidence
    texts: Mapping[str, str]
    facts: Facts
    settings: Settings
    tags: Mapping[str, str]

    def card(self, found: Sequence[Condition]) -> str:
        return model_card(self.facts, found)


def candidate(root: Path, variant: str) -> Candidate:
    """Everything about a trained variant of the root pipeline. Raises NotReady."""
    plan = {step.name: step for step in dvc.plan(root)}
    known = plan.keys()
    stages = [f"{stage}@{variant}" for stage in _STAGES]
    if not set(stages) <= known:
        trained = sorted(name.partition("@")[2] for name in known if name.startswith("train@"))
        raise NotReady(f"{variant} is not a trained variant of dvc.yaml; there is {', '.join(trained) or 'none'}")
    if REPORT not in known:
        raise NotReady(f"dvc.yaml has no stage {REPORT}, so nobody knows when reports/audit.json was made")
    measured = [REPORT, *stages, f"converse@{BASE}", f"benchmark@{BASE}", *({BASE, "personas"} & known)]
    stale = sorted(set(dvc.changed(root, measured)) & set(measured))
    if stale:
        raise NotReady(f"out of date: {', '.join(stale)}; run `rlver run` first, so that what is promoted is what was measured")
    if f"transcripts/{variant}.jsonl" not in plan[REPORT].reads:
        raise NotReady(
            f"the stage {REPORT} of dvc.yaml does not read transcripts/{variant}.jsonl, so its audit may be old: add it to its deps"
        )
    lock = dvc.locked(root)
    md5 = next(md5 for path, md5 in lock[f"train@{variant}"].outputs.items() if records.kind(path) == "models")
    settings = load_settings(root / "params.yaml", variant)
    texts = _texts(root, variant)
    revision = records.revision(root)
    tags = {"git_commit": revision.commit, "git_dirty": str(revision.dirty).lower()} if revision else {}
    return Candidate(
        variant=variant,
        md5=md5,
        evidence=_evidence(root, variant),
        texts=texts,
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
    return _evidence(root, BASE)


def _evidence(root: Path, variant: str) -> Evidence:
    return Evidence(variant, load_transcripts(_transcripts(root, variant)), _json(_general(root, variant)), _audit(root, variant))


def _texts(root: Path, variant: str) -> dict[str, str]:
    """The same as texts, by the names of EVIDENCE; what there is not is left out."""
    general, audit = _general(root, variant), _audit(root, variant)
    found = (
        _transcripts(root, variant).read_text(encoding="utf-8"),
        general.read_text(encoding="utf-8") if general.is_file() else None,
        None if audit is None else json.dumps(audit),
    )
    return {name: text for name, text in zip(EVIDENCE, found, strict=True) if text is not None}


def _transcripts(root: Path, variant: str) -> Path:
    return root / "transcripts" / f"{variant}.jsonl"


def _general(root: Path, variant: str) -> Path:
    return root / "metrics" / variant / "general.json"


def _audit(root: Path, variant: str) -> Any:
    """The variant's audit as the report made it; None where it was not audited."""
    audits = _json(root / AUDITS) or {}
    return audits.get(variant)


def _json(path: Path) -> Any:
    return read_json(path, "run its stage again") if path.is_file() else None
