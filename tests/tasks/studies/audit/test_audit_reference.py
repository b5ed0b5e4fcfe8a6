"""The honest supporter beside a policy: its score is the policy's, its users are the policy's; where nobody can talk, it says why."""

from __future__ import annotations

from typing import Any

import pytest
from audit_talks import PARAMETERS, ROOT, RULES, SAMPLES, SEED, VANILLA, GullibleUser, people, talks

from rlver.components.domain.emotion import EmotionRules
from rlver.components.domain.persona import Persona
from rlver.components.domain.transcript import Dialogue
from rlver.components.policy.tiny.supporters import mixed
from rlver.components.scoring.units import Sampling
from rlver.components.settings.settings import Settings, load_settings
from rlver.tasks.studies.audit.audit import audit
from rlver.tasks.studies.audit.opinions import other_difficulty
from rlver.tasks.studies.audit.reference import FARTHEST, NoReference, Reference, configured, matched, mean_final, talk, well_meant

SOME = people()[:24]
PERSONAS = {persona.persona_id: persona for persona in SOME}
HELD = talks(mixed(0.5), personas=SOME)


@pytest.mark.long
@pytest.mark.parametrize("skill", [0.1, 0.36, 0.8])
def test_the_score_is_that_of_the_policy_and_the_users_are_the_same(skill: float) -> None:
    held = talks(mixed(skill), personas=SOME)
    found = matched(held, PERSONAS, VANILLA, RULES)
    assert isinstance(found, Reference) and abs(mean_final(found.dialogues) - mean_final(held)) <= FARTHEST
    assert [(one.persona_id, one.seed, one.turns[0].user) for one in found.dialogues] == [
        (one.persona_id, one.seed, one.turns[0].user) for one in held
    ]
    assert found.tried <= 14 and matched(held, PERSONAS, VANILLA, RULES) == found, "the same every time"


def test_more_skill_earns_more() -> None:
    finals = [
        mean_final([talk(one, well_meant(skill), VANILLA, RULES, 1, one.persona_id) for one in SOME]) for skill in (-1.0, 0.0, 0.5, 1.0)
    ]
    assert finals == sorted(finals) and finals[0] < 10 and finals[-1] > 90


def test_a_user_who_says_goodbye_is_gone() -> None:
    rules = EmotionRules(floor=0)  # below 10 the user wants to end
    held = [talk(one, well_meant(-1.0), VANILLA, rules, 1, one.persona_id) for one in SOME]
    assert {one.stop_reason for one in held if len(one.turns) < rules.max_turns} == {"goodbye"}
    assert all(turn.emotion is not None and turn.emotion >= 10 for one in held for turn in one.turns[:-1])


def changed(**values: object) -> list[Dialogue]:
    return [one.model_copy(update=values) for one in HELD]


@pytest.mark.parametrize(
    ("dialogues", "personas", "why"),
    [
        (talks(mixed(0.5), GullibleUser(), SOME), PERSONAS, "another user"),
        (HELD, {}, "--personas"),
        (changed(emotion_final=None), PERSONAS, "--personas"),
        (changed(emotion_final=0), PERSONAS, "no honest supporter ends as low"),
        (HELD, {name: one.model_copy(update={"story": None}) for name, one in PERSONAS.items()}, "story"),
    ],
)
def test_without_a_reference_there_is_a_reason(dialogues: list[Dialogue], personas: dict[str, Persona], why: str) -> None:
    found = matched(dialogues, personas, VANILLA, RULES)
    assert isinstance(found, NoReference) and why in found.why, found


def settings(**user: object) -> Settings:
    known = load_settings(ROOT / "params.yaml")
    return known.model_copy(update={"simulator": known.simulator.model_copy(update=user)})


def test_it_talks_with_users_by_rules_alone_and_of_the_difficulty_of_the_dialogues() -> None:
    assert isinstance(configured(HELD, PERSONAS, settings(difficulty="challenging")), Reference)
    found = configured(HELD, PERSONAS, settings(kind="llm"))
    assert found == NoReference("a scripted supporter talks with users by rules alone, and these are llm")


def test_it_stands_beside_the_policy_in_the_audit() -> None:
    reference, base = matched(HELD, PERSONAS, VANILLA, RULES), talks(mixed(0.2), personas=SOME)
    assert isinstance(reference, Reference)
    found = audit(HELD, base, None, {}, other_difficulty(HELD, PERSONAS, RULES), reference, PARAMETERS, Sampling(SAMPLES, SEED))
    assert found["reference"]["of_policy"] == mean_final(HELD) and found["reference"]["final"] == mean_final(reference.dialogues)
    assert 0.5 < found["reference"]["kept"]["value"] < 1.2 and found["reference"]["why"] == ""
    checks = {check["name"]: check for check in found["checks"]}
    assert checks["praise"]["reference"] is not None and checks["praise"]["reference_ci95"] is not None
    assert checks["unconfirmed_gain"]["ci95"] is not None, "compared with the reference"

    alone = audit(HELD, base, None, {}, other_difficulty(HELD, PERSONAS, RULES), NoReference("x"), PARAMETERS, Sampling(SAMPLES, SEED))
    assert alone["reference"]["why"] == "not measured: x" and alone["reference"]["final"] is None
    assert {check["reference"] for check in alone["checks"]} == {None}


@pytest.mark.long
def test_without_a_reference_nothing_is_called_clean() -> None:
    """All of this supporter's habits are clean, and its gain is judged by nobody: the audit and the gate must not take that for an answer."""
    held, base = talks(mixed(1.0)), talks(mixed(0.36))
    known = {persona.persona_id: persona for persona in people()}

    def found(reference: Reference | NoReference) -> dict[str, Any]:
        second = other_difficulty(held, known, RULES)
        return audit(held, base, None, {}, second, reference, PARAMETERS, Sampling.over(known.values(), SAMPLES, SEED))

    assert found(matched(held, known, VANILLA, RULES))["outcome"] == "clean"
    alone = found(NoReference("a language model plays the user"))
    assert alone["outcome"] == "unknown" and "unconfirmed_gain" in alone["why"]


def test_several_policies_in_one_file_have_no_audit() -> None:
    mixed = [HELD[0], HELD[1].model_copy(update={"policy": "q"})]
    for dialogues, base in ((mixed, None), (HELD[:1], mixed)):
        with pytest.raises(ValueError, match="figures are of one policy"):
            audit(dialogues, base, None, {}, other_difficulty(HELD, PERSONAS, RULES), NoReference("x"), PARAMETERS, Sampling(SAMPLES, SEED))
