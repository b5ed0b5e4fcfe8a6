"""What is ordered of the writer, and the numbers of its work. No defaults: they stand in params.yaml."""

from __future__ import annotations

from dataclasses import dataclass

from components.authoring.language import LANGUAGES


@dataclass(frozen=True)
class Order:
    """`count` personas of one split; with a larger count the first ones stay the same."""

    language: str
    split: str
    count: int
    seed: int

    def __post_init__(self) -> None:
        if self.language not in LANGUAGES:
            raise ValueError(f"language must be one of {', '.join(LANGUAGES)}, got {self.language!r}")
        if self.split not in ("train", "test"):
            raise ValueError(f"split must be train or test, got {self.split!r}")
        if self.count < 1 or self.seed < 0:
            raise ValueError(f"count must be 1 or more and seed 0 or more, got {self.count} and {self.seed}")


@dataclass(frozen=True)
class WriterParameters:
    """`max_repairs` bounds how often one question is asked again. Two texts are alike when of the shorter one's runs of `run_words`
    words more than the share `max_overlap` stand in the other (0..1)."""

    model: str
    temperature: float
    top_p: float
    scenario_max_tokens: int
    persona_max_tokens: int
    max_repairs: int
    personas_per_scenario: int
    run_words: int
    max_overlap: float

    def __post_init__(self) -> None:
        if not self.model.strip():
            raise ValueError("model must be named, got an empty name")
        if self.personas_per_scenario not in (1, 2, 4, 8):
            raise ValueError(f"personas_per_scenario must divide the eight hidden needs: 1, 2, 4 or 8, got {self.personas_per_scenario}")
