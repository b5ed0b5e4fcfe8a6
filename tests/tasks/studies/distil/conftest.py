"""Small recordings of the scripted user, held here, and an appraiser that is distilled from them once."""

from __future__ import annotations

from pathlib import Path

import pytest
from distillation_settings import small_parameters

from rlver.components.domain.emotion import EmotionRules, stop_reason
from rlver.components.domain.files import write_jsonl
from rlver.components.domain.persona import Persona
from rlver.components.domain.protocols import About
from rlver.components.domain.transcript import Dialogue, Turn
from rlver.components.personas.generator import compose_personas
from rlver.components.personas.library import load_library
from rlver.components.policy.tiny.model import hold
from rlver.components.policy.tiny.supporters import mixed
from rlver.components.replay.reappraisal import appraised_now
from rlver.components.users.scripted.simulator import ScriptedAppraiser, ScriptedSimulator

SUPPORTERS = {"poor": 0.15, "fair": 0.45, "good": 0.75}


def recorded(persona: Persona, policy: str, follows: float, seed: int) -> Dialogue:
    """One dialogue of a scripted supporter with a scripted user."""
    rules, simulator = EmotionRules(), ScriptedSimulator("vanilla")
    held = hold(persona, mixed(follows), simulator, rules, seed, False)
    words = [Turn(user=user, assistant=move.reply) for user, move in zip(held.users, held.moves, strict=False)]
    turns, _ = appraised_now(ScriptedAppraiser("vanilla").appraiser(About(persona)), rules.start, words)
    emotion = held.emotion_final
    assert turns[-1].emotion == emotion
    ended = stop_reason(emotion, len(turns), False, rules)
    assert ended is not None
    return Dialogue(
        dialogue_id=f"{policy}/{persona.persona_id}", persona_id=persona.persona_id, hidden_need=persona.hidden_need.value, policy=policy,
        seed=seed, simulator=simulator.tag, emotion_start=rules.start, emotion_final=emotion, stop_reason=ended, turns=turns,
    )  # fmt: skip


@pytest.fixture(scope="session")
def people() -> list[Persona]:
    return compose_personas(load_library(), seed=11, train=80, test=8)[0]


@pytest.fixture(scope="session")
def recordings(people: list[Persona]) -> list[Dialogue]:
    return [recorded(persona, policy, follows, 3) for policy, follows in SUPPORTERS.items() for persona in people]


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory, recordings: list[Dialogue], people: list[Persona], repository_root: Path) -> Path:
    """A folder with the recordings, their personas and small parameters."""
    folder = tmp_path_factory.mktemp("distil")
    small_parameters(repository_root, folder / "params.yaml")
    write_jsonl(folder / "recorded.jsonl", [dialogue.model_dump(mode="json") for dialogue in recordings])
    write_jsonl(folder / "personas.jsonl", [persona.model_dump(mode="json") for persona in people])
    return folder


@pytest.fixture(scope="session")
def appraiser(project: Path) -> Path:
    """The folder that `rlver distil` wrote."""
    from rlver.tasks.studies.distil.command import distil

    distil([project / "recorded.jsonl"], project / "appraiser", project / "personas.jsonl", project / "params.yaml")
    return project / "appraiser"


@pytest.fixture(scope="session")
def english(recordings: list[Dialogue]) -> list[Dialogue]:
    return recordings[:6]
