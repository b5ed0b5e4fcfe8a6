"""The talking speaker over many personas: its split's words only, a need that is never stated, nothing said twice, and how it is found."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys

import pytest
from heard_by_hand import NEEDS_READER
from hypothesis import given, settings
from hypothesis import strategies as st
from talking_dialogue import REPLIES, Felt, begins_with, dialogue, people, plain

from rlver.components.domain.emotion import EmotionRules
from rlver.components.domain.persona import HiddenNeed, Persona
from rlver.components.domain.protocols import Simulator, now
from rlver.components.domain.registry import SIMULATORS, SPEAKERS
from rlver.components.domain.transcript import Appraisal
from rlver.components.personas.needs import stated_need
from rlver.components.policy.tiny.model import hold
from rlver.components.policy.tiny.supporters import mixed
from rlver.components.users.scripted.effects import DIFFICULTIES
from rlver.components.users.scripted.simulator import VERSION, ScriptedAppraiser
from rlver.components.users.talking.speaker import TalkingSpeaker, TalkingSpeakers
from rlver.components.users.talking.wordings import cues, version, wordings
from rlver.components.users.together import Together


def filled(split: str, persona: Persona) -> list[str]:
    role = persona.story.other.role if persona.story else ""
    return [cue.replace("{role}", role) for need in HiddenNeed for cue in cues(need, split)]


# --- the split decides the words


@pytest.mark.long
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


@pytest.mark.long
def test_all_wordings_of_a_need_are_said_by_somebody() -> None:
    for split, dialogues in {"train": 6, "test": 1}.items():
        personas = people()[split]
        said = "\n".join(one.text for persona in personas for seed in range(dialogues) for one in dialogue(persona, REPLIES, seed))
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


def test_a_user_who_presses_in_small_letters_alone_does_so_at_any_age() -> None:
    persona = people()["train"][0]
    assert persona.story
    pressing = persona.model_copy(
        update={"age": 60, "style": "formal", "kind": "danger", "story": persona.story.model_copy(update={"presses": ("keep it",)})}
    )
    assert "keep it" in dialogue(pressing, REPLIES)[1].text


@pytest.mark.long
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


def test_an_appraiser_of_another_difficulty_shows_in_the_tag() -> None:
    same, other = (Together(ScriptedAppraiser(difficulty), TalkingSpeakers("vanilla"), 40).tag for difficulty in DIFFICULTIES)
    assert same.version == f"{VERSION} {version()}" and other.version == f"{VERSION} appraised=challenging {version()}"
    assert same.difficulty == other.difficulty == "vanilla"


@pytest.mark.long
@NEEDS_READER
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
