"""The portrait: what is counted from which evidence, what is null and why, and that no number comes without an interval."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from fakes import a_dialogue

from rlver.components.domain.acts import SURE
from rlver.components.domain.transcript import Dialogue, Evidence, SimulatorTag, Turn
from rlver.components.scoring import acts, behaviour, capabilities
from rlver.components.scoring import capabilities as cognition
from rlver.components.scoring.acts import STRATEGIES, Act
from rlver.components.scoring.portrait import portrait
from rlver.components.scoring.units import Sampling
from rlver.components.users.scripted.patterns import GENERIC, SERVING
from rlver.components.users.scripted.reading import HARMFUL


def reply(*what: str, found: Sequence[str] = (), change: int = 0, grounded: bool = False, cued: bool | None = True) -> Act:
    return Act(frozenset(what), frozenset(found), change, grounded, cued)


def evidence(*content: str, target: Sequence[str] = ()) -> tuple[Evidence, ...]:
    return (*(Evidence(step="content", what=act) for act in content), *(Evidence(step="target", what=one) for one in target))


def told(dialogue: Dialogue, *pairs: tuple[str, str], think: str | None = None) -> Dialogue:
    """The dialogue with these messages and replies."""
    turns = [
        turn.model_copy(update={"user": user, "assistant": said, "think": think})
        for turn, (user, said) in zip(dialogue.turns, pairs, strict=True)
    ]
    return dialogue.model_copy(update={"turns": tuple(turns)})


def test_the_groups_name_the_acts_of_the_simulator_and_no_others() -> None:
    assert frozenset({**SERVING, **GENERIC, **HARMFUL}) == acts.ALL
    assert frozenset(HARMFUL) == acts.HARMFUL
    assert frozenset().union(*STRATEGIES.values()) <= acts.ALL


def test_depth_is_warmth_and_the_person_s_own_words() -> None:
    depth = capabilities.empathic_depth(
        [
            reply("advise"),
            reply("comfort"),
            reply("deep_empathy"),
            reply("deep_empathy", grounded=True),
            reply("deep_empathy", "blame", grounded=True),
            reply(grounded=True),
        ]
    )
    assert depth == [0, 0.25, 0.75, 1, 0, 0]


def test_insight_counts_from_the_first_cue_on() -> None:
    found = [
        reply("advise", found=["serves_need"], cued=False),
        reply("advise", found=["serves_need"]),
        reply("advise", found=["serves_need", "doubted"]),
        reply("praise", found=["misses_need"]),
    ]
    assert capabilities.core_insight(found) == [1, 0.5, 0]
    assert capabilities.core_insight([reply(cued=None)]) == [], "nobody knows of cues"


@pytest.mark.parametrize(("probability", "serves"), [(None, True), (SURE, True), (0.28, False)])
def test_a_trace_of_an_act_serves_no_need(probability: float | None, serves: bool) -> None:
    reason = Evidence(step="target", what="serves_need", points=1, probability=probability)
    turn = a_dialogue("d", [3]).turns[0]
    assert turn.appraisal is not None
    heard = turn.model_copy(update={"appraisal": turn.appraisal.model_copy(update={"evidence": (reason,)})})
    [act] = acts.acts_of(a_dialogue("d", [3]).model_copy(update={"turns": (heard,)}))
    assert act.serves is serves


def test_solutions_are_marked_where_there_are_any() -> None:
    assert capabilities.solution_crafting([reply("comfort"), reply("platitude"), reply("advise")]) == [0, 0.25]
    assert capabilities.solution_crafting([reply("advise", found=["serves_need"], grounded=True)]) == [1]
    assert capabilities.solution_crafting([reply("advise", found=["serves_need", "too_soon"])]) == [0.25]


def test_guidance_opens_or_turns_and_does_not_repeat() -> None:
    held = [reply("comfort"), reply("comfort"), reply("praise"), reply("invite_telling"), reply("praise", found=["repeats"]), reply()]
    assert capabilities.dialogue_guidance(held) == [0.5, 0.5, 1, 1, 0, 0]


def test_style_changes_what_did_not_help() -> None:
    assert capabilities.style_adaptability([reply("advise", change=-4), reply("advise", change=-4), reply("praise", change=8)]) == [0, 1]
    assert capabilities.style_adaptability([reply("praise", change=8), reply("praise", found=["repeats"])]) == [0]


def test_the_anchors_stand_in_the_corners_that_they_define() -> None:
    comfort = [reply("comfort", found=["repeats"] if number else []) for number in range(5)]
    advice = [reply("advise", found=["repeats"] if number else []) for number in range(5)]
    feeling = [reply(act, grounded=True) for act in ("deep_empathy", "praise", "invite_telling", "absolve")]
    helping = [reply(act, grounded=True) for act in ("weigh_sides", "advise", "explain_other", "invite_reflection")]
    placed = [(cognition.creative(held), cognition.emotional(held)) for held in (comfort, advice, feeling, helping)]
    assert placed == list(cognition.ANCHORS.values())
    assert cognition.creative([reply("comfort")]) is None and cognition.emotional([reply("blame")]) is None


def test_a_point_on_the_map_does_not_depend_on_who_else_is_on_it() -> None:
    held = {"a": [[reply("comfort"), reply("advise")]], "b": [[reply("praise"), reply("praise")]]}
    assert cognition.cognition(held, Sampling(200, 7))["y"]["value"] == pytest.approx((0 + 5) / 2)


def test_a_portrait_counts_what_the_evidence_says(dialogue) -> None:
    a = dialogue("a", [8, -4], cues=[False, True], evidence=[evidence("praise", target=["serves_need"]), evidence("advise", "comfort")])
    b = dialogue("b", [8, 0], cues=[False, False], evidence=[evidence("praise", "comfort"), evidence("comfort")])
    drawn = portrait([a, b], Sampling(500, 7))
    praise = drawn["strategies"]["praise"]
    assert (praise["replies"], praise["frequency"]["value"], praise["contribution"]["value"]) == (2, 0.5, 8)
    assert drawn["acts"]["comfort"]["contribution"]["value"] == pytest.approx((-4 + 8 + 0) / 3, abs=1e-6)
    assert set(drawn["acts"]) == acts.ALL and {act for act, one in drawn["acts"].items() if one["replies"]} == {
        "praise",
        "advise",
        "comfort",
    }
    assert drawn["acts"]["lecture"]["frequency"]["value"] == 0 < drawn["acts"]["lecture"]["frequency"]["ci95"]["hi"]
    assert drawn["acceptance"]["strategy_acceptance"]["value"] == pytest.approx(2 / 3, abs=1e-6)  # comfort is no strategy
    assert drawn["acceptance"]["need_expression"]["value"] == 0.5
    assert drawn["strategies"]["emotional venting"]["contribution"] == {"value": None, "ci95": None, "n": 0, "reason": "no reply does it"}


@pytest.mark.parametrize(
    ("kind", "persona", "content"),
    [
        ("distilled+scripted", "en-test-000{}-0a1b2c3d4e", "reply"),
        ("special+talking", "en-danger-test-000{}-0a1b2c3d4e", "takes_seriously"),
        ("heard+talking", "en-boundary-test-000{}-0a1b2c3d4e", "says_no"),
    ],
)
def test_of_an_appraiser_that_names_no_acts_none_are_known(dialogue, kind: str, persona: str, content: str) -> None:
    reasons = [evidence(content, target=["mood"])] * 2
    tag = SimulatorTag(kind=kind, difficulty="vanilla", version="1")
    held = [dialogue(persona.format(n), [3, 5], evidence=reasons).model_copy(update={"simulator": tag}) for n in (1, 2)]
    assert [acts.acts_of(one) for one in held] == [[], []] and acts.frequencies(held) == {}
    drawn = portrait(held, Sampling(200, 7))
    known_by_acts = [*numbers(drawn["capabilities"]), *numbers(drawn["strategies"]), drawn["acceptance"]["strategy_acceptance"]]
    assert {(one["value"], one["reason"]) for one in known_by_acts} == {(None, acts.NO_ACTS)} and drawn["acts"] == {}
    assert drawn["cognition"]["x"]["reason"] == acts.NO_ACTS
    plain = [one.model_copy(update={"persona_id": one.persona_id.replace("danger-", "").replace("boundary-", "")}) for one in held]
    assert [len(acts.acts_of(one)) for one in plain] == [0 if kind.startswith("distilled") else 2] * 2, "other users of theirs are heard"


def test_what_is_no_reply_is_no_act(dialogue) -> None:
    held = [dialogue("a", [8, -8], evidence=[evidence("praise"), evidence("gibberish")])]
    assert acts.frequencies(held) == {"praise": 0.5}


def test_a_place_on_the_map_is_missing_for_the_right_reason() -> None:
    once = {name: [[reply("comfort")]] for name in "ab"}
    assert cognition.cognition(once, Sampling(200, 7))["x"]["reason"] == "no dialogue has replies that tell", (
        "a first reply has none before it"
    )
    assert cognition.cognition(once, Sampling(200, 7))["y"]["value"] == 5
    assert cognition.cognition({"a": [[]]}, Sampling(200, 7))["x"]["reason"] == acts.NO_ACTS


def numbers(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        if "value" in value:
            yield value
        for one in value.values():
            yield from numbers(one)


def test_recordings_without_evidence_have_a_portrait_of_what_can_be_known(dialogue, failed) -> None:
    foreign = [told(dialogue(name, [5, 5], tokens=None), ("我的猫走丢了", "听起来你很难过"), ("嗯", f"你找过{name}了吗")) for name in "ab"]
    drawn = portrait([*foreign, failed("c")], Sampling(200, 7))
    for group in ("capabilities", "strategies", "acceptance"):
        assert all(one["value"] is None and one["reason"] for one in numbers(drawn[group])), group
    assert drawn["cognition"]["x"]["value"] is None and drawn["acts"] == {}
    assert drawn["behaviour"]["reply_words"]["value"] == pytest.approx((7 + 6) / 2), "characters of Chinese, words of other letters"
    assert drawn["behaviour"]["stock_replies"]["value"] == 0.5
    assert drawn["behaviour"]["reply_tokens"]["value"] is None and drawn["behaviour"]["thought_seconds"]["reason"]


def test_every_number_has_an_interval_around_it_or_a_reason(dialogue) -> None:
    held = [
        dialogue(name, [8, -4, 3], cues=[True] * 3, evidence=[evidence("praise"), evidence("advise"), evidence("comfort")])
        for name in "abcde"
    ]
    drawn = portrait(held, Sampling(200, 7))
    found = list(numbers(drawn))
    assert len(found) > 25 and json.loads(json.dumps(drawn, allow_nan=False)) == drawn
    for one in found:
        assert one["reason"] if one["value"] is None else one["ci95"]["lo"] - 1e-6 <= one["value"] <= one["ci95"]["hi"] + 1e-6
    assert portrait(list(reversed(held)), Sampling(200, 7)) == drawn, "the order of the rows is nothing"


def test_one_persona_has_no_interval_so_it_has_no_mean_and_no_share(dialogue) -> None:
    drawn = portrait(
        [dialogue("a", [8], evidence=[evidence("praise")]), dialogue("b", [8], evidence=[evidence("comfort")])], Sampling(200, 7)
    )
    alone = portrait([dialogue("a", [8], evidence=[evidence("praise")])], Sampling(200, 7))
    means = alone["capabilities"]["empathic_depth"], drawn["acts"]["praise"]["contribution"]
    for one in (*means, alone["acts"]["praise"]["frequency"], alone["behaviour"]["stock_replies"]):
        assert one["value"] is None and one["reason"] == "one persona says nothing about the spread"


def test_repetition_is_counted_in_runs_of_four_words() -> None:
    said = [acts.words_of(text) for text in ("You did all you could.", "You did all you could, truly.", "Go on.")]
    assert behaviour.repeated_runs(said) == pytest.approx(2 / 3)  # second reply: 3 runs, 2 of them known; third: none
    assert behaviour.repeated_runs(said[:1]) is None


def test_a_longer_dialogue_of_the_same_speech_is_as_diverse() -> None:
    """Five words in turn: 5 different ones among any 25. Distinct-1 would fall from 5 / 25 to 5 / 100."""
    reply = ("you", "did", "all", "you'd", "could")
    assert behaviour.different_words([reply] * 5) == behaviour.different_words([reply] * 20) == pytest.approx(5 / 25)
    assert behaviour.different_words([reply] * 4) is None, "fewer than 25 words"


def test_length_tracking_sees_replies_that_grow_with_what_they_answer() -> None:
    messages = ("one", "one two", "one two three", "one", "one two three four", "one two")

    def tracked(messages: Sequence[str], replies: Sequence[str]) -> float | None:
        pairs = zip(messages, replies, strict=True)
        return behaviour.length_tracking([Turn(user=user, assistant=said, emotion=None, appraisal=None) for user, said in pairs])

    assert tracked(messages, ("first replies do not count", *messages[1:])) == pytest.approx(1.0)
    # words 2 3 1 4 2 answered by 3 2 4 1 3: the correlation of ln 3, ln 4, ln 2, ln 5, ln 3 with ln 4, ln 3, ln 5, ln 2, ln 4
    assert tracked(messages, ("x", "a b c", "a b", "a b c d", "a", "a b c")) == pytest.approx(-0.96, abs=0.01)
    assert tracked(messages, ["so it is"] * 6) == 0.0, "one length for all follows nobody"
    assert tracked(messages[:4], messages[:4]) is None, "too few turns"
    assert tracked(["one two"] * 6, messages) is None, "nothing to follow"


def test_thinking_costs_its_share_of_the_tokens(dialogue) -> None:
    thinking = [told(dialogue(name, [1]), ("hi", "Go on."), think="they want to talk") for name in "ab"]  # 3 of 3 + 8 tokens
    drawn = portrait(thinking, Sampling(200, 7))["behaviour"]
    assert drawn["thought_share_of_tokens"]["value"] == pytest.approx(3 / 11, abs=1e-6)
    assert (drawn["thought_tokens"]["value"], drawn["thought_words"]["value"]) == (3, 4)
    assert drawn["replies_with_thought"]["value"] == 1
