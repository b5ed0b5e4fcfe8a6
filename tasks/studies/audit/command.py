"""Policies on disk and their audits, for `rlver audit` and for every report.

Of a variant, the training log and kept held-out dialogues are found by themselves; of a transcript file only what is given.

What `rlver audit` does: audit every policy that is named, probe the user if asked to, and lay the outcome out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rlver.components.domain.files import BadFile, write_json
from rlver.components.domain.persona import Persona
from rlver.components.domain.transcript import Dialogue
from rlver.components.personas.schema import validate_file
from rlver.components.report.material import Checkpoints, Material, Variant, load_checkpoints
from rlver.components.rollout.transcripts import load_transcripts
from rlver.components.settings.settings import Settings, load_settings
from rlver.tasks.runtime.appraisers import TRANSCRIPTS, file_of_variant
from rlver.tasks.runtime.progress import counted
from rlver.tasks.studies.audit.audit import audit
from rlver.tasks.studies.audit.checks import CheckOutcome, read_log
from rlver.tasks.studies.audit.opinions import Recorded, other_difficulty
from rlver.tasks.studies.audit.summary import details, probe_table

BASE = "base"
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
    """The audit of one policy with everything of it that is on disk."""
    rules = settings.simulator.rules
    return audit(
        policy.dialogues,
        base,
        None if policy.log is None else read_log(policy.log),
        policy.checkpoints,
        second or other_difficulty(policy.dialogues, personas, rules),
        settings.audit,
        settings.evaluation.bootstrap_samples,
        settings.seed,
    )


def with_audits(material: Material, settings: Settings, logs: Path | None) -> Material:
    """The material of a report with the audit of every variant among its metrics; `logs`: the folder of <variant>/train.jsonl."""
    base = None if material.base is None else material.base.dialogues

    def audited(variant: Variant) -> Variant:
        log = None if logs is None else logs / variant.name / "train.jsonl"
        policy = Audited(variant.name, variant.dialogues, log if log and log.is_file() else None, variant.checkpoints)
        found = audit_one(policy, None if variant.is_base else base, settings, personas={})
        return replace(variant, metrics={**variant.metrics, "audit": found})

    return replace(material, variants=tuple(audited(variant) for variant in material.variants))


def audit_files(
    named: Sequence[Path],
    base: Path | None,
    log: Path | None,
    second: Path | None,
    personas: Path | None,
    probe_personas: Path | None,
    out: Path | None,
    params: Path,
) -> tuple[str, bool]:
    """Markdown of every audit, and whether all are free of alarms. `probe_personas` are those the cheats talk with; None: no probe.

    Raises ValueError or BadFile, in one line, before anything is written.
    """
    settings = load_settings(params)
    if log is not None and len(named) > 1:
        raise ValueError("a training log belongs to one policy: audit the others by themselves, or as variants")
    policies = [Audited.of(one, log) for one in named]
    if base is None and (TRANSCRIPTS / f"{BASE}.jsonl").is_file():
        base = Path(BASE)
    base_dialogues = None if base is None else Audited.of(base, None).dialogues
    people = {persona.persona_id: persona for persona in validate_file(personas)} if personas else {}
    opinion = Recorded(load_transcripts(second)) if second else None
    audits = {
        policy.name: audit_one(policy, None if _same(policy.dialogues, base_dialogues) else base_dialogues, settings, people, opinion)
        for policy in counted(policies, "policies audited")
    }
    parts = [details(name, found) for name, found in audits.items()]
    written: dict[str, Any] = {"policies": audits}
    if probe_personas is not None:
        from rlver.tasks.studies.audit.probe import probe

        written["probe"] = probe(settings, validate_file(probe_personas), base_dialogues, policies[0].dialogues)
        parts.append(probe_table(written["probe"]))
    if out is not None:
        write_json(out, written)
    outcomes = [found["outcome"] for found in (*audits.values(), *([written["probe"]] if "probe" in written else []))]
    return "\n".join(parts), CheckOutcome.ALARM not in outcomes


def _same(dialogues: Sequence[Dialogue], base: Sequence[Dialogue] | None) -> bool:
    """Whether the policy is the base itself."""
    return base is not None and list(dialogues) == list(base)
