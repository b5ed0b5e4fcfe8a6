"""Policies on disk and their audits, for `rlver audit` and for every report.

Of a variant, the training log and kept held-out dialogues are found by themselves; of a transcript file only what is given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rlver.components.domain.files import BadFile
from rlver.components.domain.persona import Persona
from rlver.components.domain.transcript import Dialogue
from rlver.components.report.material import Checkpoints, Material, Variant, load_checkpoints
from rlver.components.report.panels.panel import Sources
from rlver.components.rollout.transcripts import load_transcripts
from rlver.components.settings.settings import Settings
from rlver.tasks.runtime.appraisers import file_of_variant
from rlver.tasks.studies.audit.audit import audit
from rlver.tasks.studies.audit.checks import read_log
from rlver.tasks.studies.audit.opinions import Recorded, other_difficulty
from rlver.tasks.studies.audit.reference import configured

LOGS = Path("logs")


@dataclass(frozen=True)
class Audited:
    """One policy on disk. `log` is None where no training was logged."""

    name: str
    dialogues: Sequence[Dialogue]
    log: Path | None
    checkpoints: Checkpoints

    @staticmethod
    def of(named: Path, log: Path | None) -> Audited:
        """A transcript file, or the name of a variant. Raises BadFile."""
        if log is not None and not log.is_file():
            raise BadFile(f"{log}: no such file")
        if variant := file_of_variant(named):
            return Audited(str(named), load_transcripts(variant), *training_of(log or LOGS / named / "train.jsonl"))
        return Audited(str(named), load_transcripts(named), *((None, {}) if log is None else training_of(log)))


def training_of(log: Path) -> tuple[Path | None, Checkpoints]:
    """The log, None if it is not there, and the held-out dialogues kept beside it. Raises BadFile."""
    return (log if log.is_file() else None), load_checkpoints(log.parent / "held_out")


def audit_one(
    policy: Audited,
    base: Sequence[Dialogue] | None,
    settings: Settings,
    personas: Mapping[str, Persona],
    second: Recorded | None = None,
) -> dict[str, Any]:
    """The audit of one policy with everything of it that is on disk, beside an honest reference that talks with the same users now."""
    rules = settings.simulator.rules
    return audit(
        policy.dialogues,
        base,
        None if policy.log is None else read_log(policy.log),
        policy.checkpoints,
        second or other_difficulty(policy.dialogues, personas, rules),
        configured(policy.dialogues, personas, settings),
        settings.audit,
        settings.evaluation.bootstrap_samples,
        settings.seed,
    )


def with_audits(material: Material, sources: Sources) -> Material:
    """The material of a report with the audit of every variant among its metrics.

    The second appraiser knows the class and traits of the sources' personas; of others the recorded need alone.
    """
    base = None if material.base is None else material.base.dialogues
    known = {persona.persona_id: persona for persona in sources.personas}

    def audited(variant: Variant) -> Variant:
        log = None if sources.logs is None else sources.logs / variant.name / "train.jsonl"
        policy = Audited(variant.name, variant.dialogues, log if log and log.is_file() else None, variant.checkpoints)
        found = audit_one(policy, None if variant.is_base else base, sources.settings, known)
        return replace(variant, metrics={**variant.metrics, "audit": found})

    return replace(material, variants=tuple(audited(variant) for variant in material.variants))
