"""The file of wordings: complete, without doubles, no need stated, and test cues in words that training cues do not have."""

from __future__ import annotations

import re
from collections.abc import Iterator
from random import Random

import pytest

from benchmarks.wordings import guessed, naive_bayes, talking_cues, words
from rlver.components.domain.persona import SPEAKING_STYLES, HiddenNeed
from rlver.components.personas.needs import WORDS, stated_need
from rlver.components.users.scripted.patterns import GENERIC, SERVING
from rlver.components.users.scripted.reading import HARMFUL, content_of
from rlver.components.users.shifts.words import cues_of
from rlver.components.users.talking.wordings import content_word, cues, version, wordings

CHANCE = 1 / len(HiddenNeed)
SPLITS = ("train", "test")


def leaves(part: object) -> Iterator[list[str]]:
    """Every list of wordings below `part`."""
    if isinstance(part, dict):
        for inner in part.values():
            yield from leaves(inner)
    else:
        assert isinstance(part, list)
        yield part


def test_every_need_has_at_least_sixty_wordings_and_none_stands_in_both_splits_or_twice() -> None:
    every = [cue for need in HiddenNeed for split in SPLITS for cue in cues(need, split)]
    assert len(set(every)) == len(every)
    for need in HiddenNeed:
        assert len(cues(need, "train")) >= 33 and len(cues(need, "test")) >= 29


@pytest.mark.parametrize("need", list(HiddenNeed))
def test_test_cues_share_no_phrase_and_hardly_a_word_of_content_with_training_cues(need: HiddenNeed) -> None:
    train, test = (cues(need, split) for split in SPLITS)

    def phrases(said: list[str] | tuple[str, ...]) -> set[tuple[str, ...]]:
        return {tuple(words(cue)[start : start + 4]) for cue in said for start in range(len(words(cue)) - 3)}

    def content(said: list[str] | tuple[str, ...]) -> frozenset[str]:
        return frozenset[str]().union(*(content_of(cue.replace("{role}", "")) for cue in said))

    assert not phrases(tuple(train)) & phrases(tuple(test))
    shared = content(tuple(train)) & content(tuple(test))
    assert len(shared) <= 3, shared
    assert min(len(content(tuple(train))), len(content(tuple(test)))) > 60


def test_who_learns_the_training_cues_by_their_words_guesses_test_cues_near_chance() -> None:
    train, test = talking_cues("train"), talking_cues("test")
    for smoothing in (0.1, 0.5, 1.0, 2.0):
        assert guessed(naive_bayes(train, smoothing), test) < CHANCE + 0.065  # three standard errors of 232 guesses
    assert guessed(naive_bayes(train, 0.5), train) > 0.95  # the classifier can learn


def test_nobody_says_a_cue_of_the_scripted_users() -> None:
    own = {cue for need in HiddenNeed for split in SPLITS for cue in cues(need, split)}
    for package in ("scripted", "shifts"):
        assert not own & {cue for said in cues_of(f"rlver.components.users.{package}").values() for cue in said}


def test_no_wording_that_a_user_says_states_a_need() -> None:
    for section, part in wordings().items():
        for said in leaves(part) if section != "boundary" else ():
            for one in said:
                assert stated_need(one.replace("{role}", "sister").replace("{word}", "kindness")) is None, one
    for need in HiddenNeed:
        for split in SPLITS:
            assert not [cue for cue in cues(need, split) if WORDS[need].stated.search(cue)]


def test_only_cues_name_the_role_and_only_first_words_take_up_a_word() -> None:
    slots = {
        section: {slot for said in leaves(part) for one in said for slot in re.findall(r"\{.*?\}", one)}
        for section, part in wordings().items()
    }
    assert slots.pop("cues") == {"{role}"}
    assert {section for section, found in slots.items() if found} == {"reactions", "general", "answers", "objections"}
    assert set().union(*slots.values()) == {"{word}"}
    assert all(one.count("{") == one.count("}") for part in wordings().values() for said in leaves(part) for one in said)


def test_every_act_that_can_be_heard_has_reactions_and_half_of_them_need_no_word() -> None:
    reactions = wordings()["reactions"]
    assert set(reactions) == {*SERVING, *GENERIC, *HARMFUL, "nothing"}
    for act, by_sign in reactions.items():
        assert set(by_sign) == ({"unwelcome"} if act in {*HARMFUL, "nothing"} else {"welcome", "unwelcome"})
    for said in [*leaves(reactions), *leaves(wordings()["general"]), *leaves(wordings()["objections"])]:
        assert len(set(said)) == len(said) >= 6
        assert sum("{word}" not in one for one in said) >= len(said) / 2


def test_sections_are_those_that_the_code_asks_for() -> None:
    assert set(wordings()["register"]) == set(SPEAKING_STYLES) - {"plain"}
    assert set(wordings()["goodbyes"]) == {"glad", "hurt"}
    assert set(wordings()["answers"]) == {"welcome", "unwelcome", "told", "vague"}
    assert set(wordings()["general"]) == {"welcome", "unmoved", "unwelcome"}
    assert set(wordings()["objections"]["tried"]) == {"welcome", "unwelcome"}
    for said in leaves({key: part for key, part in wordings().items() if key != "cues"}):
        assert len(set(said)) == len(said) >= 6 and all(one.strip() == one and one for one in said)


def test_a_content_word_is_one_of_the_text_and_no_name_no_common_word_and_no_adverb() -> None:
    text = "You really bravely told Evelyn about the haircut, and that it's yours."
    found = {content_word(text, Random(number)) for number in range(50)}
    assert found == {"haircut"}
    assert content_word("You should talk", Random(1)) is None and content_word("", Random(1)) is None
    assert content_word("the haircut and the scissors", Random(1), among=frozenset({"scissor"})) == "scissors"


def test_the_version_carries_the_files_hash() -> None:
    assert re.fullmatch(r"talking-1 [0-9a-f]{8}", version())
