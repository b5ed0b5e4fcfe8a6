"""The material of a report from transcript files alone: the scores are computed from the dialogues, and nothing else is known.

Any transcripts will do, imported ones too: acts, needs, classes and reasons that nobody recorded leave their part of the report out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from components.dialogue.transcript import Dialogue
from components.evaluation.report.loading import BASE, Material, Variant
from components.evaluation.sentient import sentient_metrics
from components.evaluation.transcripts import load_transcripts
from components.files import BadFile
from components.personas.importers import CLASS_OF

_CLASS_FIELD = "character"  # of a recorded SAGE dialogue


def material_of(paths: Sequence[Path], base: str | None, classes: Mapping[str, str], bootstrap_samples: int, seed: int) -> Material:
    """One variant a file, named after it; `base` is the name of the one that the others are paired with (default: "base" if it is there).

    Raises BadFile for a broken file, two files of one name or an unknown base; ValueError for dialogues that cannot be compared.
    """
    repeated = [name for name, count in Counter(path.stem for path in paths).items() if count > 1]
    if repeated:
        raise BadFile(f"two transcript files are called {', '.join(repeated)}: a policy is named after its file, so rename one")
    dialogues = {path.stem: tuple(load_transcripts(path)) for path in paths}
    if base is not None and base not in dialogues:
        raise BadFile(f"--base {base}: no such policy here; there are {', '.join(sorted(dialogues))}")
    base = base or (BASE if BASE in dialogues else None)
    known = {**_recorded_classes(dialogues), **classes}
    return Material(
        tuple(
            Variant(name, name == base, dialogues[name], _metrics(name, base, dialogues, known, bootstrap_samples, seed), None, None)
            for name in sorted(dialogues, key=lambda name: (name != base, name))
        ),
        known,
    )


def _metrics(
    name: str, base: str | None, dialogues: Mapping[str, tuple[Dialogue, ...]], classes: Mapping[str, str], samples: int, seed: int
) -> dict[str, dict[str, object]]:
    """The scores of one policy; none when none of its dialogues can be scored."""
    if all(dialogue.emotion_final is None for dialogue in dialogues[name]):
        return {}
    beside = None if base is None or name == base else dialogues[base]
    return {"sentient": sentient_metrics(dialogues[name], beside, samples, seed, classes=classes)}


def _recorded_classes(dialogues: Mapping[str, tuple[Dialogue, ...]]) -> dict[str, str]:
    """Persona classes that an imported record names."""
    originals = ((dialogue.persona_id, dialogue.original) for group in dialogues.values() for dialogue in group)
    words = {persona: str(record[_CLASS_FIELD]) for persona, record in originals if record and record.get(_CLASS_FIELD)}
    return {persona: str(CLASS_OF.get(word, word)) for persona, word in words.items()}
