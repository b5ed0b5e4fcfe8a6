"""What people's answers say, in numbers that can be checked by hand."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest
from scipy.stats import rankdata

from rlver.components.scoring.statistics import Interval, paired_share_interval, pearson
from rlver.tasks.studies.blind.agreement import Rated, agreement, coincidences, krippendorff_alpha, share
from rlver.tasks.studies.blind.answers import Choice, Preference, Replied, Row, Spoken, Study, StudyPair, TalkBegun, TalkVerdict
from rlver.tasks.studies.blind.report import HumanReport, PreferencePoint, emotion_agreement, human_report, judged
from rlver.tasks.studies.blind.wording import markdown

SAMPLES = 1000


def study(emotions: Sequence[tuple[int | None, int | None]]) -> Study:
    pairs = tuple(
        StudyPair(pair_id=f"p{n}", persona_id=f"who{n}", dialogue_a=f"a{n}", dialogue_b=f"b{n}", emotion_a=a, emotion_b=b)
        for n, (a, b) in enumerate(emotions)
    )
    return Study(a="base", b="tuned", simulator="scripted", seed=7, pairs_each=40, overlap=0.5, pairs=pairs)


def choice(rater: str, pair: int, preference: Preference, confidence: int = 1, number: str = "") -> Choice:
    return Choice(
        at="t",
        answer_id=f"{rater}{pair}{number}",
        rater=rater,
        pair_id=f"p{pair}",
        left="a",
        preference=preference,
        confidence=confidence,
        seconds=10.0 * (pair + 1),
    )


def report(rows: Sequence[Row]) -> HumanReport:
    return human_report(judged(rows), SAMPLES, 7)


def test_a_tie_counts_half() -> None:
    rows = [study([(0, 10)] * 4), choice("ann", 0, "b"), choice("ann", 1, "b"), choice("ann", 2, "tie"), choice("ann", 3, "a")]
    found = report(rows).compared
    assert found is not None
    assert found.preferred.win_rate.value == (1 + 1 + 0.5 + 0) / 4
    assert (found.preferred.a, found.preferred.tie, found.preferred.b, found.preferred.win_rate.n) == (1, 1, 2, 4)


def test_a_direction_that_one_persona_shows_is_no_direction_of_twenty() -> None:
    """Fewer than four personas with two chosen sides say nothing about others."""
    ties: dict[str, dict[str, Preference]] = {f"p{n}": {"ann": "tie", "bo": "tie"} for n in range(20)}
    persona_of = {pair: pair for pair in ties}
    assert (nobody := agreement(ties, persona_of, SAMPLES, 7)) is not None and nobody.direction is None
    for sides in range(1, 4):
        found = agreement(ties | {f"p{n}": {"ann": "a", "bo": "a"} for n in range(sides)}, persona_of, SAMPLES, 7)
        assert found is not None and found.direction is not None and found.raw.n == 20
        assert (found.direction.value, found.direction.ci95, found.direction.n) == (1.0, Interval(0.0, 1.0), sides)


def test_an_interval_is_never_a_point() -> None:
    """Ten wins of ten: Agresti and Min's half win and half loss leave a width where a bootstrap has none."""
    found = share([Rated(f"p{n}", "ann", 1.0) for n in range(10)], SAMPLES, 7)
    closed = paired_share_interval([1.0] * 10)
    assert found.value == 1.0 and found.ci95 == (pytest.approx((closed.low + 1) / 2), 1.0)
    assert 0.7 < found.ci95.low < 0.95
    assert share([Rated("p", "ann", 1.0)] * 5, SAMPLES, 7).ci95 == Interval(0.0, 1.0)


def test_people_who_contradict_each_other_widen_the_interval() -> None:
    """Of 40 personas two people each say the opposite throughout: with other people it could be anything."""
    alike = [Rated(f"p{n}", rater, float(n % 2)) for n in range(40) for rater in ("ann", "bo")]
    opposed = [Rated(f"p{n}", rater, float(rater == "ann")) for n in range(40) for rater in ("ann", "bo")]
    narrow, wide = share(alike, SAMPLES, 7), share(opposed, SAMPLES, 7)
    assert narrow.value == wide.value == 0.5
    assert narrow.ci95.low == pytest.approx(0.34, abs=0.03) and wide.ci95 == Interval(0.0, 1.0)


@pytest.mark.long
def test_the_interval_covers_the_truth() -> None:
    """500 experiments with a true win rate of 0.6 that varies by persona and by person: 40 personas, 5 people."""
    hits = 0
    for seed in range(500):
        chance = random.Random(seed)
        person = {rater: chance.gauss(0, 0.05) for rater in range(5)}
        rated = []
        for persona in range(40):
            base = 0.6 + chance.gauss(0, 0.15)
            rated += [
                Rated(f"p{persona}", f"r{rater}", float(chance.random() < min(1, max(0, base + person[rater])))) for rater in range(5)
            ]
        found = share(rated, 400, seed)
        hits += found.ci95.low <= 0.6 <= found.ci95.high
    assert 0.93 <= hits / 500 <= 0.995  # 98.8% of 1,000: crossed resampling errs on the careful side


def test_krippendorffs_alpha_by_hand() -> None:
    """Pairs (a a), (b b), (a b), (tie tie): n = 8 values, 3 a, 3 b, 2 tie; 2 values disagree.

    Observed disagreement 2/8, expected (64 - 9 - 9 - 4) / (8 * 7) = 6/8: alpha = 1 - 2/6.
    """
    table = sum(coincidences(pair) for pair in (["a", "a"], ["b", "b"], ["a", "b"], ["tie", "tie"]))
    assert isinstance(table, np.ndarray) and table.sum() == 8 and np.trace(table) == 6
    assert krippendorff_alpha(table) == pytest.approx(2 / 3)


def test_three_people_weigh_as_three_values() -> None:
    """a a b: of 6 ordered pairs 2 agree; each weighs a half, so the table sums to 3."""
    table = coincidences(["a", "a", "b"])
    assert table.tolist() == [[1.0, 0.0, 1.0], [0.0, 0.0, 0.0], [1.0, 0.0, 0.0]]


def test_agreement_counts_pairs_that_two_people_judged() -> None:
    said: dict[str, dict[str, Preference]] = {
        "p0": {"ann": "a", "bo": "a"},
        "p1": {"ann": "b", "bo": "b"},
        "p2": {"ann": "a", "bo": "b"},
        "p3": {"ann": "tie", "bo": "tie"},
        "p4": {"ann": "a"},
    }
    found = agreement(said, {pair: pair for pair in said}, SAMPLES, 7)
    assert found is not None and (found.pairs, found.raters) == (4, 2)
    assert found.raw.value == 3 / 4 and found.direction is not None and found.direction.value == pytest.approx(2 / 3)
    assert found.alpha is not None and found.alpha.value == pytest.approx(2 / 3)
    assert found.alpha.ci95.low < 2 / 3 < found.alpha.ci95.high
    assert agreement({"p4": {"ann": "a"}}, {"p4": "p4"}, SAMPLES, 7) is None


def test_people_who_guess_agree_by_chance_alone() -> None:
    chance = random.Random(3)
    said: dict[str, dict[str, Preference]] = {
        f"p{n}": {rater: chance.choice(["a", "b", "tie"]) for rater in ("ann", "bo", "cy")} for n in range(300)
    }
    found = agreement(said, {pair: pair for pair in said}, SAMPLES, 7)
    assert found is not None and found.alpha is not None
    assert found.alpha.ci95.low < 0 < found.alpha.ci95.high and found.raw.value == pytest.approx(1 / 3, abs=0.05)


def test_where_everybody_says_the_same_alpha_is_undefined() -> None:
    said: dict[str, dict[str, Preference]] = {f"p{n}": {"ann": "b", "bo": "b"} for n in range(5)}
    found = agreement(said, {pair: pair for pair in said}, SAMPLES, 7)
    assert found is not None and found.alpha is None and found.raw.value == 1.0
    assert found.raw.ci95.low == pytest.approx(5 / (5 + 1.959964**2))  # Wilson's for 5 of 5


def test_ranks_and_pearson_by_hand() -> None:
    assert rankdata(np.array([10, 20, 20, 5])).tolist() == [2.0, 3.5, 3.5, 1.0]
    assert pearson(np.array([1.0, 2, 3]), np.array([2.0, 4, 6])) == pytest.approx(1.0)
    assert pearson(np.array([1.0, 2, 3]), np.array([1.0, 3, 2])) == pytest.approx(0.5)
    assert np.isnan(pearson(np.array([1.0, 1, 1]), np.array([1.0, 3, 2])))


def test_emotion_agreement_by_hand() -> None:
    """Four pairs lean (+3, +1, -2, -1) while the emotions differ by (50, 10, -20, 30): 3 of 4 signs agree.

    Ranks of the leaning are (4, 3, 1, 2), of the emotion (4, 2, 1, 3): Spearman 1 - 6 (0 + 1 + 0 + 1) / (4 * 15) = 0.8.
    """
    found = emotion_agreement(
        [PreferencePoint(f"p{n}", x, y) for n, (x, y) in enumerate([(3, 50), (1, 10), (-2, -20), (-1, 30)])], SAMPLES, 7
    )
    assert found is not None and found.sign is not None and found.spearman is not None and found.point_biserial is not None
    assert (found.pairs, found.sign_pairs, found.sign.value) == (4, 4, 0.75)
    assert found.spearman.value == pytest.approx(0.8)
    sides, felt = np.array([1.0, 1, -1, -1]), np.array([50.0, 10, -20, 30])
    assert found.point_biserial.value == pytest.approx(float(np.corrcoef(sides, felt)[0, 1]))


def test_ties_have_no_sign_but_a_rank() -> None:
    found = emotion_agreement(
        [PreferencePoint("p0", 0, 50), PreferencePoint("p1", 2, 0), PreferencePoint("p2", 2, 10), PreferencePoint("p3", -3, 5)], SAMPLES, 7
    )
    assert found is not None and found.sign is not None
    assert (found.pairs, found.sign_pairs, found.sign.value) == (4, 2, 0.5)


def test_the_report_pairs_what_was_said_with_what_was_felt() -> None:
    """Ann prefers b by 3, bo prefers a by 1: the pair leans (3 - 1) / 2 = 1 to b, whose emotion is 30 higher."""
    rows = [
        study([(10, 40), (50, 20), (None, 80)]),
        choice("ann", 0, "b", 3),
        choice("bo", 0, "a", 1),
        choice("ann", 1, "a", 2),
        choice("ann", 2, "b", 2),
    ]
    found = report(rows).compared
    assert found is not None and found.emotion is not None and found.emotion.sign is not None
    assert (found.emotion.pairs, found.emotion.sign.value, found.pairs) == (2, 1.0, 3)
    assert [(one.rater, one.preferred.win_rate.value, one.confidence, one.seconds) for one in found.raters] == [
        ("ann", pytest.approx(2 / 3), pytest.approx(7 / 3), 20.0),
        ("bo", 0.0, 1.0, 10.0),
    ]


def test_another_appraisers_emotions_replace_those_of_the_study() -> None:
    rows = [study([(10, 40), (50, 20)]), choice("ann", 0, "b"), choice("ann", 1, "a")]
    other = human_report(judged(rows), SAMPLES, 7, {"a0": 90, "b0": 10, "a1": 0, "b1": None}).compared
    assert other is not None and other.emotion is not None and other.emotion.sign is not None
    assert (other.emotion.pairs, other.emotion.sign.value) == (1, 0.0)


def test_emotions_of_dialogues_with_the_same_id_on_both_sides_are_refused() -> None:
    (pair,) = study([(10, 40)]).pairs
    alike = study([]).model_copy(update={"pairs": (pair.model_copy(update={"dialogue_b": pair.dialogue_a}),)})
    with pytest.raises(ValueError, match="both sides have the same ids"):
        human_report(judged([alike, choice("ann", 0, "b")]), SAMPLES, 7, {pair.dialogue_a: 90})


def test_somebody_who_judges_places_is_found() -> None:
    rows = [study([(0, 10)] * 40), *(choice("ann", n, "a") for n in range(40))]
    found = report(rows).compared
    assert found is not None and found.left_rate is not None
    assert found.left_rate.value == 1.0 and found.left_rate.ci95.low > 0.9


def test_the_detectable_difference_follows_from_the_interval() -> None:
    """2.80 standard errors; the half-width of the interval is 1.96 of them."""
    rows = [study([(0, 10)] * 40), *(choice("ann", n, "a" if n % 2 else "b") for n in range(40))]
    found = report(rows).compared
    assert found is not None
    half = (found.preferred.win_rate.ci95.high - found.preferred.win_rate.ci95.low) / 2
    assert found.detectable == pytest.approx(half * (1.959964 + 0.841621) / 1.959964)


def test_what_is_detectable_is_not_told_once_a_side_is_preferred() -> None:
    """The interval is cut at 1 then, and narrower than it is near a half."""
    found = report([study([(0, 10)] * 40), *(choice("ann", n, "b") for n in range(40))])
    assert found.compared is not None and found.compared.detectable is None and "80% power" not in markdown(found)


def test_an_answer_that_was_looked_at_again_is_no_other_one() -> None:
    first, again = choice("ann", 0, "a"), choice("ann", 0, "a")
    rows = [study([(0, 10)]), first.model_copy(update={"seconds": 30.0}), again.model_copy(update={"answer_id": "later", "seconds": 2.0})]
    found = report(rows)
    assert found.revised == 0 and found.compared is not None and found.compared.raters[0].seconds == 30.0
    assert report([*rows, choice("ann", 0, "b").model_copy(update={"answer_id": "other"})]).revised == 1


def talk(number: int, rater: str, preference: Preference) -> list[Row]:
    begun = TalkBegun(at="t", rater=rater, talk_id=f"t{number}", a="base", b="tuned", left="a")
    return [
        begun,
        TalkVerdict(at="t", answer_id=f"v{number}", rater=rater, talk_id=f"t{number}", preference=preference, confidence=2),
    ]


def test_talks_are_resampled_by_person_where_there_are_several() -> None:
    one = report([row for n in range(12) for row in talk(n, "ann", "b" if n % 4 else "a")]).talked
    assert one[0].preferred.win_rate.n == 12 and one[0].preferred.win_rate.value == 0.75
    several = report([row for n in range(12) for row in talk(n, "ann" if n % 2 else "bo", "b" if n % 4 else "a")]).talked
    assert several[0].preferred.win_rate.n == 2 and several[0].raters == 2
    assert several[0].preferred.win_rate.ci95.low < one[0].preferred.win_rate.ci95.low


def replied(number: int, a: str | None = None, b: str | None = None) -> Replied:
    """`a` and `b` are errors."""
    sides = {side: Spoken(reply=None if error else "well", error=error) for side, error in (("a", a), ("b", b))}
    return Replied(at="t", talk_id=f"t{number}", message_id=f"m{number}", **sides)


def test_a_talk_in_which_a_side_never_replied_is_no_comparison() -> None:
    silent = [*talk(1, "ann", "a"), replied(1, b="BudgetExceeded: none left"), replied(1, b="BudgetExceeded: none left")]
    once = [*talk(2, "ann", "b"), replied(2, a="RuntimeError: boom"), replied(2)]
    found = report([*silent, *once])
    assert (found.talked[0].preferred.a, found.talked[0].preferred.b) == (0, 1)
    assert "Replies that never came: 1 of a, 2 of b; 1 talks in which a side never replied are left out." in markdown(found)
    with pytest.raises(ValueError, match="in every talk that was judged a side never replied"):
        report(silent)


def test_without_answers_there_is_no_report() -> None:
    with pytest.raises(ValueError, match="nobody has answered yet"):
        report([study([(0, 10)])])


def test_the_page_says_of_one_person_what_that_person_prefers() -> None:
    text = markdown(report([study([(10, 40)] * 12), *(choice("ann", n, "b", 2) for n in range(12))]))
    assert "**This person prefers b.** b wins 100%" in text and "People prefer" not in text
    alone = markdown(report([study([(10, 40)]), choice("ann", 0, "b", 2)]))
    assert "with 80% power" not in alone, "no win rate is further than 50% away from 50%"


def test_the_page_says_what_the_numbers_are() -> None:
    rows = [
        study([(10, 40)] * 12),
        *(choice(rater, n, "b" if n else "a", 2) for n in range(12) for rater in ("ann", "bo|x")),
        *talk(1, "ann", "tie"),
    ]
    text = markdown(report(rows))
    for words in (
        "a = base, b = tuned; 24 judgements of 12 pairs of dialogues by 2 people, 12 personas",
        "**People prefer b.** b wins 92% [",
        "| bo\\|x | 12 |",
        "2 people: how much others would differ is known roughly.",
        "the same answer (a, tie or b): 100% [76%, 100%]",
        "Krippendorff's alpha",
        "Spearman correlation of preference × confidence with the emotion difference: undefined",
        "**No preference is shown.** b wins 50% [0%, 100%] (b 0, tie 1, a 0)",
    ):
        assert words in text, text
