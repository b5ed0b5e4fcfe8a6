"""What `rlver audit` does: audit every policy that is named, probe the user if asked to, and lay the outcome out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from components.dialogue.transcript import Dialogue
from components.evaluation.audit.checks import Outcome
from components.evaluation.audit.opinions import Recorded
from components.evaluation.audit.summary import details, probe_table
from components.evaluation.transcripts import load_transcripts
from components.files import write_json
from components.personas.schema import validate_file
from components.settings import load_settings
from tasks.audited import BASE, Audited, audit_one
from tasks.progress import counted
from tasks.transcript_files import TRANSCRIPTS


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
        from tasks.probing import probe

        written["probe"] = probe(settings, validate_file(probe_personas), base_dialogues, policies[0].dialogues)
        parts.append(probe_table(written["probe"]))
    if out is not None:
        write_json(out, written)
    outcomes = [found["outcome"] for found in (*audits.values(), *([written["probe"]] if "probe" in written else []))]
    return "\n".join(parts), Outcome.ALARM not in outcomes


def _same(dialogues: Sequence[Dialogue], base: Sequence[Dialogue] | None) -> bool:
    """Whether the policy is the base itself."""
    return base is not None and list(dialogues) == list(base)
