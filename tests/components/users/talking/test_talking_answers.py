"""What the talking speaker says to a reply: first words that react to it, and the story, by style."""

from __future__ import annotations

import re

import pytest
from talking_dialogue import REPLIES, SIGNS, Felt, begins_with, dialogue, people, plain

from rlver.components.domain.persona import HiddenNeed
from rlver.components.users.scripted.reading import content_of
from rlver.components.users.talking.speaker import MANNERS, clipped
from rlver.components.users.talking.wordings import YOUNG, cues, wordings

# --- first words


@pytest.mark.parametrize("sign", SIGNS)
@pytest.mark.parametrize("act", sorted(wordings()["reactions"]))
def test_the_first_words_react_to_the_likeliest_act_by_the_sign_of_the_change(act: str, sign: str) -> None:
    phrases = wordings()["reactions"][act].get(sign) or wordings()["general"][sign]
    heard = Felt("Marmalade umbrellas.", {"comfort": 0.41, act: 0.9, "acknowledge": 0.42}, SIGNS[sign])
    for persona in people()["train"][:20]:
        text = dialogue(plain(persona), [heard])[1].text
        assert begins_with(text, phrases), text


def test_a_word_of_what_was_heard_is_taken_up_and_without_one_none_is() -> None:
    both = [
        dialogue(plain(one), [Felt(reply, {"praise": 0.9}, 4)])[1].text
        for reply in ("Marmalade umbrellas.", "You are it.")
        for one in people()["train"]
    ]
    with_words, without = both[:160], both[160:]
    assert 40 < sum("'marmalade'" in text or "'umbrellas'" in text for text in with_words) < 100  # half of the phrases have a slot
    assert all(begins_with(text, [one for one in wordings()["reactions"]["praise"]["welcome"] if "{word}" not in one]) for text in without)


def test_what_moved_nothing_and_what_names_no_act_is_taken_in_general_words() -> None:
    general = wordings()["general"]
    for persona in people()["train"][:20]:
        for acts, change, phrases in (({"praise": 0.9}, 0, "unmoved"), ({}, 0, "unmoved"), ({}, 3, "welcome"), ({}, -3, "unwelcome")):
            assert begins_with(dialogue(plain(persona), [Felt("Marmalade.", acts, change)])[1].text, general[phrases])


def test_advice_that_came_before_is_objected_to_and_new_advice_is_not() -> None:
    given = wordings()["objections"]["given"]
    first, other = Felt("Post a leaflet to the council.", {"advise": 0.9}, 4), Felt("Buy yourself a trumpet.", {"advise": 0.9}, 4)
    again = Felt("The council, honestly, they take any leaflet.", {"advise": 0.6, "absolve": 0.9}, 4)
    for persona in people()["train"][:20]:
        once, new, twice = (one.text for one in dialogue(plain(persona), [first, other, again])[1:])
        assert begins_with(twice, given) and not begins_with(once, given) and not begins_with(new, given)
        assert all(word in ("council", "leaflet") for word in re.findall(r"'([a-z]{4,14})'", twice.split(".")[0]))


def test_advice_that_the_story_says_was_tried_is_objected_to_with_the_line_that_tells_of_it() -> None:
    persona = next(one for one in people()["train"] if one.story and one.story.scenario_id == "family-model-railway")
    advice = "Ask the boy's mother nicely for the railway, she may be glad."
    for sign, change in SIGNS.items():
        text = dialogue(plain(persona), [Felt(advice, {"advise": 0.9}, change)])[1].text
        assert begins_with(text, wordings()["objections"]["tried"][sign])
        assert "I asked the boy's mother nicely for it, and she says he's overjoyed." in text


# --- the story


def test_a_question_of_fact_is_answered_by_the_line_that_shares_its_words_whenever_that_comes() -> None:
    answers, asked = wordings()["answers"], 0
    for persona in people()["test"][:40]:
        assert persona.story
        line, others = persona.story.lines[9], content_of(" ".join(persona.story.lines[:9] + persona.story.lines[10:]))
        own = (one for one in re.findall(r"[a-z]+", line) if content_of(one) and content_of(one) <= content_of(line) - others)
        word = max(own, key=len, default=None)
        if word is None:
            continue
        asked += 1
        for sign, change in SIGNS.items():
            text = dialogue(plain(persona), [Felt(f"And the {word}?", {"ask_fact": 0.9}, change)], seed=3)[1].text
            assert begins_with(text, answers[sign]), text
            assert line in text or clipped(line) in text
    assert asked >= 30


def test_what_was_told_is_pointed_at_and_what_no_line_says_is_answered_vaguely() -> None:
    persona = plain(next(one for one in people()["train"] if one.story and one.story.scenario_id == "family-model-railway"))
    felt = [Felt("And the harbour?", {"ask_fact": 0.9}, 2)] * 2 + [Felt("And the rhododendron?", {"ask_fact": 0.6, "comfort": 0.9}, 2)]
    first, again, elsewhere = (one.text for one in dialogue(persona, felt)[1:])
    assert "harbour and a tunnel" in first
    assert begins_with(again, wordings()["answers"]["told"]) and "'harbour'" in again
    assert begins_with(elsewhere, wordings()["reactions"]["comfort"]["welcome"])
    assert any(one in elsewhere for one in wordings()["answers"]["vague"])


def test_without_questions_the_story_is_told_in_order_and_to_the_end() -> None:
    for persona in people()["train"][:20]:
        assert persona.story
        text = "\n".join(one.text for one in dialogue(persona, [Felt("Hm.", {}, 1)] * 40))
        places = [max(text.find(line), text.find(clipped(line))) for line in persona.story.lines]
        assert places == sorted(places) and places[0] >= 0


def test_length_and_words_go_by_the_style() -> None:
    lengths = {}
    for style in MANNERS:
        said = [
            one.text for persona in people()["train"][:40] for one in dialogue(persona.model_copy(update={"style": style}), REPLIES)[1:]
        ]
        lengths[style] = sorted(len(one.split()) for one in said)
        own = wordings()["register"].get(style, [])
        assert sum(any(one in text for text in said) for one in own) >= 0.75 * len(own)
        others = [one for other, ones in wordings()["register"].items() if other not in (style, "terse") for one in ones]
        assert not any(one in text for text in said for one in others)
    mean = {style: sum(each) / len(each) for style, each in lengths.items()}
    assert mean["terse"] < 0.75 * mean["plain"] and mean["plain"] < 0.75 * mean["rambling"]
    plain_lengths = lengths["plain"]
    assert (
        plain_lengths[len(plain_lengths) // 10] < 20 and plain_lengths[-len(plain_lengths) // 10] > 35
    )  # a fragment, and several sentences


@pytest.mark.long
def test_nobody_older_or_formal_types_in_small_letters() -> None:
    small = [one for need in HiddenNeed for one in cues(need, "train") if one[0].islower()]
    assert len(small) >= 5
    by_age: dict[bool, bool] = {}
    for persona in people()["train"]:
        text = "\n".join(one.text for seed in range(3) for one in dialogue(persona, REPLIES, seed))
        is_young = (persona.age or 0) < YOUNG and persona.style != "formal"
        by_age[is_young] = by_age.get(is_young, False) or any(one in text for one in small)
    assert by_age == {True: True, False: False}


def test_clipping_leaves_the_content() -> None:
    assert clipped("I offered Mum money, and she hung up.") == "Offered Mum money. She hung up."
    assert clipped("It was raining on Sunday.") == "Raining on Sunday."
    assert clipped("Ivy said no.") == "Ivy said no."
