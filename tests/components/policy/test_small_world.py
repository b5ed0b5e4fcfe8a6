from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

from rlver.components.domain.files import read_jsonl
from rlver.components.policy.tiny import small_world
from rlver.components.policy.tiny.small_world import relations


def rows(path: Path) -> list[dict]:
    return [row for _, row in read_jsonl(path)]


def test_the_shipped_items_are_what_the_generator_makes(tmp_path: Path):
    small_world.write_items(tmp_path)
    for shipped in (small_world.LIKELIHOOD_ITEMS, small_world.CHOICE_ITEMS):
        assert shipped.read_bytes() == (tmp_path / shipped.name).read_bytes()


def test_there_are_enough_held_out_items():
    assert len(rows(small_world.LIKELIHOOD_ITEMS)) >= 200
    assert len(rows(small_world.CHOICE_ITEMS)) >= 200


def test_no_held_out_sentence_is_ever_trained_on():
    items = rows(small_world.CHOICE_ITEMS)
    asked = {f"{item['stem']} {item['options'][item['answer']]}" for item in items}
    held_out = {item["text"] for item in rows(small_world.LIKELIHOOD_ITEMS)} | asked
    for seed in (0, 7, 12345):
        sentences = small_world.training_sentences(seed, 2000)
        assert not held_out & set(sentences)
        assert not {sentence.lower() for sentence in held_out} & {sentence.lower() for sentence in sentences}


def test_all_sentences_are_distinct():
    world = small_world.build()
    sentences = [said.sentence for said in world.training + world.likelihood + world.choice]
    assert len(sentences) == len(set(sentences)) == 5 * sum(len(relation.facts) for relation in relations())


def test_every_fact_is_trained_in_three_frames_and_every_frame_with_other_facts():
    world = small_world.build()
    assert len(world.training) == 3 * len(world.choice) == 3 * len(world.likelihood)
    for relation in relations():
        for frame in relation.frames:
            beginning = frame.partition("{")[0]
            trained = [s for s in world.training if s.relation == relation.name and s.stem.lower().startswith(beginning.lower())]
            assert len(trained) >= 2, (relation.name, frame)


def test_every_held_out_word_occurs_in_the_training_text():
    words = set(re.findall(r"\w+", " ".join(s.sentence for s in small_world.build().training).lower()))
    held_out = " ".join(s.sentence for s in small_world.build().likelihood + small_world.build().choice)
    assert set(re.findall(r"\w+", held_out.lower())) <= words
    assert len(words) < 500


def test_choice_items_have_one_right_option_and_three_wrong_ones():
    right = {(said.stem, said.answer) for said in small_world.build().choice}
    positions = [0] * small_world.OPTIONS
    for item in small_world.choice_items():
        options = item["options"]
        assert isinstance(options, list)
        assert len(set(options)) == small_world.OPTIONS
        assert [(item["stem"], option) in right for option in options].count(True) == 1
        assert (item["stem"], options[item["answer"]]) in right
        positions[item["answer"]] += 1  # type: ignore[index]
    assert min(positions) > 0.15 * sum(positions)  # the position gives nothing away


def test_a_subject_has_one_answer_per_relation():
    for relation in relations():
        subjects = [subject for subject, _ in relation.facts]
        assert len(subjects) == len(set(subjects)), relation.name
        assert len({answer for _, answer in relation.facts}) >= small_world.OPTIONS, relation.name


def test_articles_fit():
    text = " ".join(s.sentence for s in small_world.build().training)
    assert not re.search(r"\b[Aa] [aeiou]", text)
    assert not re.search(r"\b[Aa]n [^aeiou]", text)


def test_sums_and_sequences_are_true():
    by_name = {relation.name: relation for relation in relations()}
    numbers = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty"
    value = {word: number for number, word in enumerate(numbers.split(), start=1)}
    for terms, total in by_name["sum"].facts:
        first, second = terms.split("|")
        assert value[first] + value[second] == value[total]
    assert list(by_name["next_number"].facts) == list(pairwise(numbers.split()))
    days = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday", "Monday"]
    assert list(by_name["next_day"].facts) == list(pairwise(days)) == [(day, after) for after, day in by_name["day_before"].facts]
    assert len(by_name["next_month"].facts) == 12
    assert {(left, right) for right, left in by_name["opposite"].facts} == set(by_name["opposite"].facts)


def test_training_sentences_are_whole_shuffled_passes():
    distinct = len(small_world.build().training)
    sentences = small_world.training_sentences(7, 2 * distinct)
    assert sorted(sentences[:distinct]) == sorted(sentences[distinct:])
    assert sentences[:distinct] != sentences[distinct:]
    assert sentences == small_world.training_sentences(7, 2 * distinct)
    assert sentences != small_world.training_sentences(8, 2 * distinct)
    assert small_world.training_sentences(7, 10) == sentences[:10]
    assert small_world.training_sentences(7, 0) == []


def test_nothing_is_about_feelings():
    text = " ".join(s.sentence for s in small_world.build().training).lower()
    assert not re.search(r"\b(sad|happy|angry|feel|sorry|lonely|afraid|proud|hurt|love)\w*", text)
