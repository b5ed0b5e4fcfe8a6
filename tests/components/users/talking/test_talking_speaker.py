"""The talking speaker over many personas: its split's words only, first words that react, a need that is never stated, nothing said twice."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from talking_dialogue import REPLIES, Felt, dialogue

from rlver.components.domain.emotion import EmotionRules
from rlver.components.domain.packages import MINILM
from rlver.components.domain.persona import HiddenNeed, Persona
from rlver.components.domain.protocols import Simulator, now
from rlver.components.domain.registry import SIMULATORS, SPEAKERS
from rlver.components.domain.transcript import Appraisal
from rlver.components.personas.generator import compose_personas
from rlver.components.personas.library import load_library
from rlver.components.personas.needs import stated_need
from rlver.components.policy.tiny.model import hold
from rlver.components.policy.tiny.supporters import mixed
from rlver.components.users.scripted.effects import DIFFICULTIES
from rlver.components.users.scripted.reading import content_of
from rlver.components.users.scripted.simulator import ScriptedAppraiser
from rlver.components.users.talking.speaker import MANNERS, TalkingSpeaker, TalkingSpeakers, clipped
from rlver.components.users.talking.wordings import YOUNG, cues, version, wordings
from rlver.components.users.together import Together

SIGNS = {"welcome": 5, "unwelcome": -5}


@cache
def people() -> dict[str, list[Persona]]:
    train, test = compose_personas(load_library(), seed=11, train=160, test=160)
    return {"train": train, "test": test}


def filled(split: str, persona: Persona) -> list[str]:
    role = persona.story.other.role if persona.story else ""
    return [cue.replace("{role}", role) for need in HiddenNeed for cue in cues(need, split)]


def begins_with(text: str, options: list[str]) -> bool:
    return any(re.match(re.escape(one).replace(re.escape("{word}"), r"[a-z]{4,14}"), text) for one in options)


def plain(persona: Persona) -> Persona:
    """Of an age and a style that say every wording that does not begin with a small letter."""
    return persona.model_copy(update={"style": "plain", "age": 50})


# --- the split decides the words


@settings(max_examples=200, deadline=None, derandomize=True)
@given(number=st.integers(0, 159), seed=st.integers(0, 2**32), split=st.sampled_from(["train", "test"]))
def test_a_user_hints_in_the_wordings_of_its_split_only(number: int, seed: int, split: str) -> None:
    persona = people()[split][number]
    said = dialogue(persona, REPLIES, seed)
    text = "\n".join(one.text for one in said)
    other = {"train": "test", "test": "train"}[split]
    assert not [cue for cue in filled(other, persona) if cue in text]
    own = [cue for cue in filled(split, persona) if cue in text]
    assert len(own) == sum(one.cue is True for one in said)
    role = persona.story.other.role if persona.story else ""
    assert set(own) <= {cue.replace("{role}", role) for cue in cues(persona.hidden_need, split)}


def test_all_wordings_of_a_need_are_said_by_somebody() -> None:
    for split, personas in people().items():
        said = "\n".join(one.text for persona in personas for one in dialogue(persona, REPLIES))
        unused = [cue for need in HiddenNeed for cue in cues(need, split) if "{role}" not in cue and cue not in said]
        assert len(unused) <= 0.05 * len(filled(split, personas[0])), unused


def test_cues_come_as_often_as_the_difficulty_says() -> None:
    for name, difficulty in DIFFICULTIES.items():
        hints = [one.cue for persona in people()["train"] for one in dialogue(persona, REPLIES, difficulty=name)[1:]]
        assert sum(map(bool, hints)) / len(hints) == pytest.approx(difficulty.cue_rate, abs=0.045)  # 3.5 standard errors of 1,440


# --- what is never said


def test_over_two_thousand_messages_no_need_is_stated_no_slot_left_open_and_nothing_said_twice() -> None:
    count = 0
    for persona in [*people()["train"][:120], *people()["test"][:120]]:
        said = [one.text for one in dialogue(persona, REPLIES, seed=count)]
        assert len(set(said)) == len(said), persona.persona_id
        for text in said:
            assert stated_need(text) is None, text
            assert not re.search(r"[{}]|''|  |\?\.|!\.", text), text
            assert text == text.strip() and text
        count += len(said) - 1
    assert count >= 2000


def test_nothing_is_said_twice_in_long_dialogues_with_the_same_reply_all_the_time() -> None:
    for persona in people()["train"][:10]:
        for one in REPLIES:
            said = [message.text for message in dialogue(persona, [one] * 19)]
            assert len(set(said)) == len(said), (persona.persona_id, one)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    reply=st.text(max_size=200),
    act=st.sampled_from(sorted(wordings()["reactions"])),
    change=st.integers(-10, 10),
    number=st.integers(0, 159),
)
def test_whatever_the_reply_no_need_is_stated_and_every_slot_is_filled(reply: str, act: str, change: int, number: int) -> None:
    for one in dialogue(people()["test"][number], [Felt(reply, {act: 0.9}, change)] * 2):
        assert stated_need(one.text) is None and "{word}" not in one.text and "{role}" not in one.text


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


# --- beginning and end, and being found


def test_it_opens_with_the_first_line_and_leaves_with_a_flag_at_both_ends_and_only_there() -> None:
    for persona in people()["train"][:20]:
        assert dialogue(persona, [])[0].text == persona.first_line
        for emotion, leaves in ((100, "glad"), (9, "hurt"), (99, ""), (10, "")):
            last = dialogue(persona, REPLIES[:1], emotion=emotion)[1]
            assert last.wants_to_end is bool(leaves)
            if leaves:
                assert last.text in wordings()["goodbyes"][leaves] and last.cue is False


def test_the_same_persona_seed_and_replies_give_the_same_words_and_others_do_not() -> None:
    persona = people()["train"][0]
    twin = persona.model_copy(update={"persona_id": "twin"})
    assert dialogue(persona, REPLIES, 1) == dialogue(persona, REPLIES, 1)
    assert dialogue(persona, REPLIES, 1) != dialogue(persona, REPLIES, 2)
    assert dialogue(persona, REPLIES, 1) != dialogue(twin, REPLIES, 1)


def test_words_do_not_depend_on_the_process() -> None:
    program = (
        "import hashlib, sys; sys.path.insert(0, 'tests/components/users/talking'); from talking_dialogue import *;"
        "from rlver.components.personas.generator import compose_personas; from rlver.components.personas.library import load_library;"
        "people = compose_personas(load_library(), 3, 8, 8);"
        "said = '|'.join(one.text for each in people for persona in each for one in dialogue(persona, REPLIES));"
        "print(hashlib.sha256(said.encode()).hexdigest())"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", program], env={"PYTHONHASHSEED": seed, "PYTHONPATH": "."}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(digests) == 1


def test_speakers_of_one_kind_know_nothing_of_each_other() -> None:
    kind, persona = TalkingSpeakers("vanilla"), people()["train"][3]
    one, other = kind.speaker(persona, 4), kind.speaker(persona, 4)

    def next_of(speaker: TalkingSpeaker, felt: Felt) -> str:
        now(speaker.hear(felt.reply, felt.appraisal))
        return now(speaker.speak(50)).text

    now(one.open()), now(other.open())
    mixed_up = [(next_of(one, felt), next_of(other, felt)) for felt in REPLIES]
    assert [first for first, _ in mixed_up] == [second for _, second in mixed_up] == [one.text for one in dialogue(persona, REPLIES, 4)[1:]]


def test_it_is_a_speaker_by_name_and_no_simulator_and_refuses_an_unknown_difficulty() -> None:
    assert SPEAKERS.has("talking") and not SIMULATORS.has("talking")
    tag = TalkingSpeakers("challenging").tag
    assert (tag.kind, tag.difficulty, tag.version) == ("talking", "challenging", version())
    with pytest.raises(ValueError, match="unknown difficulty 'easy': choose one of vanilla, challenging"):
        TalkingSpeakers("easy")


def test_a_persona_that_cannot_be_played_is_refused_by_name() -> None:
    persona = people()["train"][0]
    for changed, reason in (
        ({"story": None}, "structured story"),
        ({"first_line": None}, "first_line"),
        ({"language": "zh"}, "English only"),
    ):
        with pytest.raises(ValueError, match=f"{persona.persona_id}.*{reason}"):
            dialogue(persona.model_copy(update=changed), [])


def test_with_the_scripted_appraiser_whole_dialogues_are_held_and_change_with_the_words_of_neither() -> None:
    user: Simulator = Together(ScriptedAppraiser("vanilla"), TalkingSpeakers("vanilla"), 40)
    assert user.tag.kind == "scripted+talking" and version() in user.tag.version
    rules = EmotionRules(start=50, ceiling=100, floor=10, max_turns=10)
    for persona in [*people()["train"][:10], *people()["test"][:10]]:
        held = hold(persona, mixed(0.4), user, rules, 5, False)
        assert held == hold(persona, mixed(0.4), user, rules, 5, False)
        assert len(set(held.users)) == len(held.users) >= 3


@pytest.mark.skipif(not MINILM.folder.is_dir(), reason="the encoder's weights are not fetched")
def test_with_the_hearing_appraiser_the_first_words_answer_what_it_heard() -> None:
    from rlver.components.users.heard.appraiser import HeardAppraiser

    user = Together(HeardAppraiser("vanilla"), TalkingSpeakers("vanilla"), 40)
    assert user.tag.kind == "heard+talking"
    for persona in people()["test"][:4]:
        session = user.session(plain(persona), 2)
        now(session.open())
        appraisal = now(session.appraise("Everything happens for a reason, you'll see."))
        assert max((one.probability or 0, one.what) for one in appraisal.evidence if one.step == "content")[1] == "platitude"
        assert begins_with(now(session.speak(50)).text, wordings()["reactions"]["platitude"]["unwelcome"])


def test_an_appraisal_without_evidence_is_enough() -> None:
    speaker = TalkingSpeakers("vanilla").speaker(plain(people()["train"][0]), 1)
    now(speaker.open())
    now(speaker.hear("Marmalade.", Appraisal(content="", target="", activity="", feeling="", change=3)))
    assert begins_with(now(speaker.speak(50)).text, wordings()["general"]["welcome"])


def test_the_words_are_pinned_to_the_version() -> None:
    said = "\n".join(one.text for persona in people()["test"][:24] for one in dialogue(persona, REPLIES))
    assert hashlib.sha256(said.encode()).hexdigest()[:12] == "709c83a39a71", (
        "another message: raise talking-1 unless only the file of wordings changed"
    )
