"""What `rlver audit` and the report do: gather what is on disk of each policy, audit it, and lay the outcome out.

Of a variant, the base's transcripts, the training log and kept held-out dialogues are found by themselves; of a file only what is given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.dialogue.transcript import Dialogue
from components.evaluation.audit.audit import Checkpoints, audit
from components.evaluation.audit.checks import Outcome
from components.evaluation.audit.opinions import Recorded, other_difficulty
from components.evaluation.audit.summary import details
from components.evaluation.audit.training_log import read_log
from components.evaluation.transcripts import load_transcripts
from components.files import BadFile, write_json
from components.personas.persona import Persona
from components.personas.schema import validate_file
from components.settings import Settings, load_settings
from components.simulator.emotion import EmotionRules

BASE = "base"
TRANSCRIPTS, LOGS = Path("transcripts"), Path("logs")


@dataclass(frozen=True)
class Audited:
    """One policy on disk. `log` is None where no training was logged."""

    name: str
    dialogues: Sequence[Dialogue]
    log: Path | None
    held_out: Path | None  # folder of <step>.jsonl

    @staticmethod
    def of(named: Path, log: Path | None) -> Audited:
        """A transcript file, or the name of a variant. Raises BadFile."""
        if not named.is_file() and len(named.parts) == 1 and not named.suffix:
            if not (TRANSCRIPTS / f"{named}.jsonl").is_file():
                raise BadFile(f"{named}: neither a transcript file nor a variant with {TRANSCRIPTS / f'{named}.jsonl'}")
            return Audited(str(named), load_transcripts(TRANSCRIPTS / f"{named}.jsonl"), *training_of(log or LOGS / named / "train.jsonl"))
        return Audited(str(named), load_transcripts(named), *((None, None) if log is None else training_of(log)))


def training_of(log: Path) -> tuple[Path | None, Path | None]:
    """The log and the folder of held-out dialogues beside it; None for what is not there."""
    held_out = log.parent / "held_out"
    return (log if log.is_file() else None), (held_out if held_out.is_dir() else None)


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
    base_dialogues = (
        None if base is None and not (TRANSCRIPTS / f"{BASE}.jsonl").is_file() else Audited.of(base or Path(BASE), None).dialogues
    )
    people = {persona.persona_id: persona for persona in validate_file(personas)} if personas else {}
    opinion = Recorded(load_transcripts(second)) if second else None
    audits = {
        policy.name: audit_one(policy, None if _same(policy.dialogues, base_dialogues) else base_dialogues, settings, people, opinion)
        for policy in policies
    }
    parts = [details(name, found) for name, found in audits.items()]
    written: dict[str, Any] = {"policies": audits}
    if probe_personas is not None:
        from components.evaluation.audit.summary import probe_table
        from tasks.probing import probe

        written["probe"] = probe(settings, validate_file(probe_personas), base_dialogues, policies[0].dialogues)
        parts.append(probe_table(written["probe"]))
    if out is not None:
        write_json(out, written)
    outcomes = [found["outcome"] for found in (*audits.values(), *([written["probe"]] if "probe" in written else []))]
    return "\n".join(parts), Outcome.ALARM not in outcomes


def audit_one(
    policy: Audited,
    base: Sequence[Dialogue] | None,
    settings: Settings,
    personas: Mapping[str, Persona],
    second: Recorded | None = None,
) -> dict[str, Any]:
    """The audit of one policy with everything of it that is on disk."""
    s = settings.simulator
    rules = EmotionRules(s.emotion_start, s.emotion_ceiling, s.emotion_floor, s.max_turns)
    return audit(
        policy.dialogues,
        base,
        None if policy.log is None else read_log(policy.log),
        _checkpoints(policy.held_out),
        second or other_difficulty(policy.dialogues, personas, rules),
        settings.audit,
        settings.evaluation.bootstrap_samples,
        settings.seed,
    )


def _checkpoints(folder: Path | None) -> Checkpoints | None:
    """Held-out dialogues by step, from files named after the step. Raises BadFile."""
    if folder is None:
        return None
    files = sorted(folder.glob("*.jsonl"))
    wrong = next((file for file in files if not file.stem.isdigit()), None)
    if wrong is not None:
        raise BadFile(f"{wrong}: held-out dialogues are kept in <step>.jsonl")
    return {float(file.stem): load_transcripts(file) for file in files}


def _same(dialogues: Sequence[Dialogue], base: Sequence[Dialogue] | None) -> bool:
    """Whether the policy is the base itself."""
    return base is not None and list(dialogues) == list(base)
