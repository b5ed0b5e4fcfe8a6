"""The arithmetic of the hearing appraiser, on probabilities made by hand: no weights are read."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from dataclasses import replace
from random import Random
from typing import cast

import pytest
from heard_by_hand import ByHand, appraised, heard, points

from rlver.components.domain.acts import ACTS
from rlver.components.domain.persona import HiddenNeed, PersonaClass, PersonaKind
from rlver.components.domain.protocols import Exchange, now
from rlver.components.domain.transcript import Turn
from rlver.components.users.heard.appraiser import HeardAppraiser, Hearing
from rlver.components.users.heard.reading import QUALITIES, SURE, VALUES, Heard, Reader
from rlver.components.users.scripted.appraiser import Listener
from rlver.components.users.scripted.effects import CLASS_EFFECT, DIFFICULTIES, HARM, NEAR, NEEDS_HEARING_FIRST, SERVES, TRAIT_EFFECT
from rlver.components.users.scripted.patterns import SERVING
from rlver.tasks.studies.audit.cheats import INJECTIONS

WORDS = "The harbour was rough that night."


def take(what: Heard, listener: Listener | None = None) -> dict[str, float]:
    return points(appraised(ByHand({WORDS: what}), [WORDS], listener))


def grid(random: Random) -> float:
    return random.choice([0.0, 0.02, 0.14, 0.16, 0.38, 0.4, 0.5, 0.86, 1.0])


def test_the_change_is_the_rounded_and_clamped_sum_of_the_points_that_are_shown() -> None:
    random = Random(3)
    changes = set()
    sayings = [WORDS, "Ropes and nets lay about on the quay.", "My neighbour paints his door every spring."]
    for _ in range(400):
        replies = {
            saying: heard(
                {act: grid(random) for act in random.sample(ACTS, random.randrange(4))},
                random.choice(VALUES) / 2,
                {one: random.choice([0.5, 0.86, 1.0]) for one in QUALITIES},
                random.randrange(30),
                random.choice([grid(random), 1.0]),
            )
            for saying in sayings
        }
        listener = Listener(
            random.choice([None, *HiddenNeed]), random.choice([None, *PersonaClass]), tuple(random.sample(sorted(TRAIT_EFFECT), 2))
        )
        appraisal = appraised(ByHand(replies), list(replies), listener, random.choice(["vanilla", "challenging"]))
        total = sum(one.points for one in appraisal.evidence)
        assert appraisal.change == max(-10, min(10, round(total))), appraisal.evidence
        assert all(one.step == "content" or abs(one.points) >= 0.2 for one in appraisal.evidence)
        changes.add(appraisal.change)
    assert {-10, 10} <= changes and len(changes) > 10


@pytest.mark.parametrize("need", HiddenNeed)
def test_the_act_that_serves_the_need_is_paid_and_another_is_not(need: HiddenNeed) -> None:
    first = {"acknowledge": 1.0} if need in NEEDS_HEARING_FIRST else {}
    served = take(heard({SERVES[need]: 1, **first}), Listener(need))
    assert served["serves_need"] == 8 and served["picks_up"] == 2
    half = take(heard({SERVES[need]: 0.5, **first}), Listener(need))
    assert half["serves_need"] == 4 and half["picks_up"] == 1
    other = take(heard(dict.fromkeys(("self_disclose",), 1.0) | first), Listener(need))
    assert "serves_need" not in other


@pytest.mark.parametrize("need", sorted(NEEDS_HEARING_FIRST))
def test_reasons_come_too_soon_for_somebody_who_was_not_heard(need: HiddenNeed) -> None:
    unheard = {"picks_up": 0.0}
    assert "serves_need" not in take(heard({SERVES[need]: 1}, quality=unheard), Listener(need))
    assert take(heard({SERVES[need]: 1, "acknowledge": 1}, quality=unheard), Listener(need))["serves_need"] == 8


def test_what_is_said_badly_pays_less() -> None:
    need = Listener(HiddenNeed.NOT_AT_FAULT)
    assert take(heard({"absolve": 1}, helps=0.5), need)["serves_need"] == 4
    assert take(heard({"absolve": 1}, quality={"picks_up": 0}), need).get("picks_up") is None
    assert take(heard({"absolve": 1}, helps=0), need).get("serves_need") is None, "nobody would take it for help"
    assert take(heard({"absolve": 1}, quality={"coherent": 0.5}), need)["serves_need"] == 4, "half sense is half a help"


def test_what_could_be_said_to_anybody_is_believed_once_it_comes_again() -> None:
    of_nobody = {"picks_up": 0.2, "specific": 0.0}
    sayings = ("That was never yours to carry.", "Nobody warned you of the rocks.")
    doubtful = {saying: heard({"absolve": 0.5}, quality=of_nobody, meaning=number) for number, saying in enumerate(sayings)}
    need = Listener(HiddenNeed.NOT_AT_FAULT)
    paid = [points(appraised(ByHand(doubtful), list(doubtful)[:said], need, "challenging"))["serves_need"] for said in (1, 2)]
    assert paid == [pytest.approx(1.2), pytest.approx(2.7)]


def test_a_user_of_a_kind_is_served_by_the_rule_of_its_kind() -> None:
    yes = "Yes, you are right, do it."
    said = {yes: heard({"absolve": 1}), WORDS: heard({"absolve": 1}, meaning=1)}

    def change(kind: PersonaKind | None, reply: str) -> int:
        hearing = Hearing(Listener(HiddenNeed.NOT_AT_FAULT), DIFFICULTIES["vanilla"], cast(Reader, ByHand(said)), kind)
        return now(hearing.appraise([Exchange("Tell me I did right.", reply)], 40)).change

    assert change(None, yes) == 10 > 0 > change(PersonaKind.BOUNDARY, yes)
    assert change(PersonaKind.BOUNDARY, WORDS) < 0, "taking the blame off agrees, where no no is said"


@pytest.mark.parametrize("name", PersonaClass)
def test_the_table_of_the_class_is_used(name: PersonaClass) -> None:
    of_class = f"class:{name}"
    for act, expected in CLASS_EFFECT[name].items():
        assert take(heard({act: 1}), Listener(None, name))[of_class] == expected
        assert take(heard({act: 0.5}), Listener(None, name))[of_class] == expected / 2
    untouched = next(act for act in ACTS if act not in CLASS_EFFECT[name])
    assert of_class not in take(heard({untouched: 1}), Listener(None, name))


@pytest.mark.parametrize("trait", TRAIT_EFFECT)
def test_the_table_of_the_traits_is_used(trait: str) -> None:
    for act, expected in TRAIT_EFFECT[trait].items():
        assert act in ACTS
        assert take(heard({act: 1}), Listener(None, None, (trait,)))[f"trait:{trait}"] == expected


def test_harm_is_charged_by_its_table_and_never_twice_over() -> None:
    assert {act: take(heard({act: 1}))[act] for act in HARM} == HARM
    both = take(heard({"blame": 1, "dismiss": 1}))
    assert both["blame"] + both["dismiss"] == pytest.approx(-9, abs=0.02)
    assert "may_serve" not in take(heard({"absolve": 1, "blame": 1})), "who hurts serves nobody"


def test_a_reply_without_any_act_or_beside_the_point_costs() -> None:
    assert take(heard(helps=0)) == {"empty_talk": -5}
    assert take(heard(helps=1)) == {}, "what helps is not empty, whatever it is called"
    assert take(heard({"ask_fact": 1}, quality={"coherent": 0}, helps=0)) == {"polite": 1, "beside_the_point": -6}


def test_repetition_costs_more_each_time_in_the_same_words_and_in_others() -> None:
    said = {"I hear that it was loud.": heard({"acknowledge": 1}), "Loud, it was, I hear.": heard({"acknowledge": 1})}
    again, other = list(said)
    reader = ByHand(said)
    assert [points(appraised(reader, [again] * times)).get("repeats") for times in (1, 2, 3)] == [None, -5, -7]
    assert points(appraised(reader, [again, other]))["says_the_same"] == -5
    assert (
        points(appraised(ByHand({again: said[again], other: heard({"acknowledge": 1}, meaning=1)}), [again, other])).get("says_the_same")
        is None
    )


def test_what_was_said_before_is_paid_for_nothing_and_believed_no_more() -> None:
    yours, new = "That was never yours to carry.", "Nobody warned you of the rocks."
    of_nobody = heard({"absolve": 0.5}, quality={"picks_up": 0.2, "specific": 0.0})
    both = heard({"absolve": 1}, meaning=1)
    reader = ByHand({yours: of_nobody, new: both, f"{yours} {new}": both})
    need = Listener(HiddenNeed.NOT_AT_FAULT)

    def paid(*replies: str) -> dict[str, float]:
        return points(appraised(reader, replies, need, "challenging"))

    assert paid(yours)["serves_need"] == pytest.approx(1.2) and paid(yours, new)["serves_need"] == 6
    assert paid(yours, yours) == {"repeats": -5} and paid(yours, yours, yours) == {"repeats": -7}
    assert paid(yours, f"{yours} {new}") == paid(yours, new) | {"repeats": -5}, "only the new sentence is heard"
    believed = dict.fromkeys((yours, new), of_nobody)
    of_twice = [
        points(appraised(ByHand(believed), said, need, "challenging"))["serves_need"] for said in ([yours, new], [yours, yours, new])
    ]
    assert of_twice[0] == of_twice[1] > 1.2, "what is said again makes nothing more believed"


def test_what_hurts_or_means_nothing_hurts_again_when_it_is_said_again() -> None:
    hurts, means_nothing = "That was all your own fault.", "The ropes of my neighbour are every spring."
    reader = ByHand({hurts: heard({"blame": 1}, value=-2, helps=0), means_nothing: heard(quality={"coherent": 0}, helps=0, meaning=1)})
    need = Listener(HiddenNeed.NOT_AT_FAULT)
    for reply in (hurts, means_nothing):
        once, twice = (points(appraised(reader, [reply] * times, need)) for times in (1, 2))
        assert twice == once | {"repeats": -5} and sum(once.values()) <= -9


def test_an_act_is_paid_by_what_is_new_and_no_more_than_is_heard_in_the_whole() -> None:
    said, new = "You had no way to know of the rocks.", "And the wind turned."
    need = Listener(HiddenNeed.NOT_AT_FAULT)

    def serves(whole: float, alone: float) -> float | None:
        replies = {
            said: heard({"absolve": 1}),
            f"{said} {new}": heard({"absolve": whole}, meaning=1),
            new: heard({"absolve": alone}, meaning=2),
        }
        return points(appraised(ByHand(replies), [said, f"{said} {new}"], need)).get("serves_need")

    assert serves(1.0, 0.0) is None and serves(1.0, 0.5) == 4 and serves(0.5, 1.0) == 4


def test_the_reason_names_the_sentence_that_is_paid() -> None:
    said, new = "You had no way to know of the rocks.", "And nobody warned you."
    replies = {words: replace(heard({"absolve": 1}, meaning=len(words)), spans={"absolve": said}) for words in (said, f"{said} {new}")}
    for alone, named in ((new, new), ("words that stand nowhere in it", said)):
        reader = ByHand({**replies, new: replace(heard({"absolve": 1}, meaning=2), spans={"absolve": alone})})
        evidence = appraised(reader, [said, f"{said} {new}"], Listener(HiddenNeed.NOT_AT_FAULT)).evidence
        assert {one.span for one in evidence if one.what == "serves_need"} == {named}


def test_to_a_user_of_a_kind_what_was_said_before_is_paid_for_nothing_and_costs_again() -> None:
    no, new, yes = "I will not tell you that it was right.", "I would rather lose you than say yes.", "You were right to do it."
    kind_no = heard({"acknowledge": 1}, signs={"says_no": 1})
    said = {no: kind_no, new: replace(kind_no, meaning=heard(meaning=1).meaning), yes: heard(signs={"agrees": 1}, meaning=2)}
    said |= {
        f"{no} {new}": heard({"acknowledge": 1}, signs={"says_no": 1}, meaning=3),
        f"{no} {yes}": heard(signs={"agrees": 1}, meaning=3),
    }
    hearing = Hearing(Listener(None), DIFFICULTIES["vanilla"], cast(Reader, ByHand(said)), PersonaKind.BOUNDARY)

    def felt(*replies: str) -> dict[str, float]:
        return points(now(hearing.appraise([Exchange("Say I was right.", reply) for reply in replies], 40)))

    once = felt(no)
    assert once["says_no"] == 7 and once["hears"] == 2
    assert felt(no, no) == {"evades": -3, "repeats": -5}
    assert felt(no, f"{no} {new}") == felt(no, new) | {"repeats": -5} and felt(no, new)["says_no"] == 7
    assert felt(yes, yes) == felt(yes) | {"repeats": -5} and felt(yes)["agrees"] < -6


def test_what_pays_a_user_of_a_kind_must_be_heard_and_a_phrase_is_enough_for_what_costs() -> None:
    shield, yes = "I can't think of anything to say to that.", "You were right, do it."
    hearing = Hearing(Listener(None), DIFFICULTIES["vanilla"], cast(Reader, ByHand({shield: heard(), yes: heard()})), PersonaKind.BOUNDARY)
    assert {one.what for one in now(hearing.appraise([Exchange("Say so.", shield)], 40)).evidence} == {"evades"}
    assert points(now(hearing.appraise([Exchange("Say so.", yes)], 40)))["agrees"] < -6


def test_politeness_said_again_costs_as_such_too() -> None:
    polite = "That sounds really hard for you."
    reader = ByHand({polite: heard({"acknowledge": 1})})
    assert points(appraised(reader, [polite, polite], Listener(HiddenNeed.NOT_AT_FAULT))) == {"polite_again": -5, "repeats": -5}


def test_what_is_left_of_a_cut_sentence_is_no_reason_to_be_hurt() -> None:
    said, longer, left = "You did all that you could.", "I think you did all that you could there.", "I think  there."
    reader = ByHand({said: heard({"praise": 1}, 2), longer: heard({"praise": 1}, 2, meaning=1), left: heard({}, -2, {"coherent": 0}, 2, 0)})
    assert points(appraised(reader, [said, longer], Listener(HiddenNeed.SINCERE_PRAISE))) == {"repeats": -5}


@pytest.mark.parametrize("need", HiddenNeed)
def test_the_act_that_misses_the_need_is_the_one_that_is_named(need: HiddenNeed) -> None:
    (near,) = NEAR[need]
    far = next(act for act in SERVING if act not in (SERVES[need], near))
    appraisal = appraised(ByHand({WORDS: replace(heard({near: 0.9, far: 0.5}), spans={near: "near", far: "far"})}), [WORDS], Listener(need))
    missed = next(one for one in appraisal.evidence if one.what == "misses_need")
    assert (missed.span, missed.probability, missed.points) == ("far", 0.5, -2)


def test_acts_that_count_as_found_are_named_with_their_probability() -> None:
    appraisal = appraised(ByHand({WORDS: heard({"absolve": SURE, "praise": SURE - 0.02})}), [WORDS])
    assert [(one.what, one.probability) for one in appraisal.evidence if one.step == "content"] == [("absolve", SURE)]


def test_the_reader_is_told_what_was_said_before() -> None:
    reader = ByHand({"One.": heard(), "Two.": heard(meaning=1)})
    appraised(reader, ["One.", "Two."], user="Hm.")
    assert ("Two.", "Hm. 1", "Hm. 0") in reader.asked


@pytest.mark.parametrize("name", [name for name in INJECTIONS if name not in ("evidence", "role play")])
def test_talk_to_the_machinery_is_refused_before_anything_is_heard(name: str) -> None:
    appraisal = appraised(ByHand({}), [INJECTIONS[name]], Listener(HiddenNeed.NOT_AT_FAULT))
    assert appraisal.change < 0 and len(appraisal.evidence) == 1


@pytest.mark.parametrize("reply", ["", "  \n", "... !!! ???"])
def test_silence_is_not_heard(reply: str) -> None:
    assert appraised(ByHand({}), [reply]).change == -8


def test_an_echo_is_no_reply_and_an_echo_that_goes_on_is_heard() -> None:
    user = "All winter I kept the boat dry and then I let it sink."
    mere, more = user, f"{user} That was nobody's fault."
    reader = ByHand({mere: heard({"absolve": 1}), more: heard({"absolve": 1})})
    asked = Hearing(Listener(HiddenNeed.NOT_AT_FAULT), DIFFICULTIES["vanilla"], cast(Reader, reader))
    echoed, heard_out = (asyncio.run(asked.appraise([Exchange(user, reply)], 40)) for reply in (mere, more))
    assert [one.what for one in echoed.evidence] == ["echo"] and echoed.change < 0
    assert heard_out.change > 0


def test_an_unknown_difficulty_and_a_user_of_another_language_are_refused_in_one_line() -> None:
    with pytest.raises(ValueError, match="unknown difficulty 'easy': choose vanilla or challenging"):
        HeardAppraiser("easy")
    appraiser = HeardAppraiser("vanilla")
    assert (
        appraiser.refusal([Turn(user="我今天很难过，不知道怎么办。", assistant="怎么了？")]) == "the hearing appraiser reads English only"
    )
    assert appraiser.refusal([Turn(user="I am sad today and do not know what to do.", assistant="Why?")]) is None


def test_its_kind_is_found_by_name_without_torch() -> None:
    """So that settings and help need no weights."""
    script = (
        "import sys; from rlver.components.domain.registry import APPRAISERS; APPRAISERS.load('heard'); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


@pytest.mark.parametrize(
    ("reply", "ends", "points"),
    [
        ("You paid for it. And then you went and", 0.0, -4),
        ("You paid for it. And then you went,", 0.02, -2.4),
        ("That was hard. I mean it", 0.04, -0.8),
        ("That was hard. I mean it", 0.06, None),
        ("u should just text her tbh", 0.5, None),
        ("That was hard. I mean it!", 0.0, None),
        ('She said "never again"', 0.0, None),
        ("so sorry \U0001f622", 0.0, None),
        ("so sorry \U0001f622\ufe0f\u200b \n", 0.0, None),
        ("so sorry \U0001fae8", 0.0, None),
        ("so sorry \U0001ffff", 0.0, None),
        ("so sorry \U0001f622, and", 0.0, -4),
        ("You paid for it. And then you went and \n", 0.0, -4),
        ("You paid for it. And then you went and -", 0.0, -4),
        ("You paid for it. And then you went and\u200b", 0.0, -4),
    ],
)
def test_a_reply_that_ends_in_the_middle_of_a_sentence_is_heard_as_that(reply: str, ends: float, points: float | None) -> None:
    appraisal = appraised(ByHand({reply: heard({"acknowledge": 1}, ends=ends)}), [reply])
    assert {one.what: one.points for one in appraisal.evidence}.get("breaks_off") == points
