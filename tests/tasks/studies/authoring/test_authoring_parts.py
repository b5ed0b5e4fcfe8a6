"""What the writer is made of: prompts in both languages, likeness, casting, Chinese wording."""

from __future__ import annotations

import re
from collections import Counter
from importlib.resources import files

import pytest

from rlver.components.domain.persona import SPEAKING_STYLES, TRAITS_OF_CLASS, HiddenNeed, PersonaClass
from rlver.components.personas.library import load_library
from rlver.tasks.studies.authoring import chinese
from rlver.tasks.studies.authoring.answers import _NO_JOB
from rlver.tasks.studies.authoring.asking import PersonaOrder, WriterParameters
from rlver.tasks.studies.authoring.casting import beginning, plans
from rlver.tasks.studies.authoring.language import LANGUAGES, names_of, sparks_of
from rlver.tasks.studies.authoring.originals import KnownTexts
from rlver.tasks.studies.authoring.questions import PROMPTS

HAN = re.compile("[\u4e00-\u9fff]")


def test_every_prompt_exists_in_both_languages_with_the_same_places() -> None:
    names = {file.name for file in files("rlver.tasks.studies.authoring").joinpath("prompts").iterdir()}
    stems = {name.rsplit(".", 3)[0] for name in names}
    assert names == {f"{stem}.{code}.{PROMPTS.version}.txt" for stem in stems for code in LANGUAGES} and len(stems) == 6
    for stem in stems:
        english, chinese_ = (PROMPTS.template(f"{stem}.{code}") for code in LANGUAGES)
        assert set(english.get_identifiers()) | {"name"} == set(chinese_.get_identifiers()) | {"name"}
        assert not HAN.search(english.template) and HAN.search(chinese_.template)


@pytest.mark.parametrize("job", ["IT工程师", "在IT公司做行政", "a Software tester", "a web designer", "游戏策划", "an IT consultant"])
def test_jobs_in_computing_are_found_beside_chinese_and_in_capitals(job: str) -> None:
    assert _NO_JOB.search(job)


@pytest.mark.parametrize("job", ["a nurse who loves it", "a bITter critic", "a gamekeeper", "小学老师"])
def test_other_jobs_are_let_be(job: str) -> None:
    assert not _NO_JOB.search(job)


def test_likeness_is_the_share_of_the_shorter_ones_runs() -> None:
    """Of the three runs of three in `b c d e f`, `b c d` and `c d e` stand in the known text."""
    known = KnownTexts(run_words=3)
    known.add("first", "A b, c {name} d! E")
    assert known.closest("B c d e f") == ("first", pytest.approx(2 / 3))
    assert known.closest("nothing of it here") == ("", 0.0)
    assert KnownTexts(3).closest("too short") == ("", 0.0)


def test_the_hand_written_library_is_far_below_the_bound() -> None:
    known, most = KnownTexts(run_words=5), 0.0
    for scenario in load_library().scenarios:
        most = max(most, known.closest("\n".join(scenario.texts()))[1])
        known.add(scenario.id, "\n".join(scenario.texts()))
    assert 0 < most < 0.01


@pytest.mark.parametrize("code", LANGUAGES)
def test_what_is_dealt_out_to_train_is_not_in_test(code: str) -> None:
    train, test = (names_of(code, split) for split in ("train", "test"))
    for gender in "fm":
        assert test.first_names[gender] and not set(train.first_names[gender]) & set(test.first_names[gender])
    assert test.surnames and not set(train.surnames) & set(test.surnames)
    sparks = [sparks_of(code, split) for split in ("train", "test")]
    assert not set(sparks[0].things) & set(sparks[1].things) and not set(sparks[0].moments) & set(sparks[1].moments)
    assert {one.name for one in sparks[0].domains} == set(load_library().domains())


@pytest.mark.parametrize("code", LANGUAGES)
def test_a_cast_is_balanced_and_no_full_name_comes_twice(code: str) -> None:
    order = PersonaOrder(code, "train", 96, seed=3)
    beginnings = [beginning(order, number) for number in range(12)]
    cast = list(plans(order, LANGUAGES[code], beginnings, 8))

    assert set(Counter((one.need, one.persona_class) for one in cast).values()) == {4}
    assert len({one.full_name for one in cast}) == 96
    assert all(set(one.traits) <= set(TRAITS_OF_CLASS[one.persona_class]) for one in cast)
    assert {one.domain.name for one in beginnings[:8]} == set(load_library().domains())
    assert Counter(one.gender for one in beginnings) == {"f": 6, "m": 6}


def test_names_never_run_out_silently() -> None:
    order = PersonaOrder("zh", "test", 1000, seed=3)
    with pytest.raises(ValueError, match="names of the test split are used up"):
        list(plans(order, LANGUAGES["zh"], [beginning(order, number) for number in range(125)], 8))


def test_every_need_class_and_trait_has_chinese_words() -> None:
    for need in HiddenNeed:
        assert chinese.stated_need(chinese.need_text(need)) is not None
        for persona_class in PersonaClass:
            traits = TRAITS_OF_CLASS[persona_class][:3]
            texts = chinese.reactions("陈安", need, persona_class, traits)
            assert sorted(texts) == ["A", "B", "C", "F", "S", "misses", "serves"]
            assert all("陈安" in text and "{" not in text for text in texts.values())
            assert all(chinese.character("陈安", persona_class, traits, style) for style in SPEAKING_STYLES)


@pytest.mark.parametrize(
    ("text", "need"),
    [
        ("我就想听人说一句这不怪我", HiddenNeed.NOT_AT_FAULT),
        ("我想好好反省一下自己", HiddenNeed.SELF_REFLECTION),
        ("你帮我分析分析吧", HiddenNeed.DIALECTICAL_ANALYSIS),
        ("根本没人懂我", HiddenNeed.DEEP_EMPATHY),
        ("我只想找个人听我说", HiddenNeed.ATTENTIVE_LISTENING),
        ("我就是想不通他为什么这样", HiddenNeed.UNDERSTAND_OTHERS),
        ("我现在怎么办啊", HiddenNeed.USEFUL_ADVICE),
        ("从来没人夸过我", HiddenNeed.SINCERE_PRAISE),
        ("我把琴擦干净了，姐姐却卖了它", None),
        ("上周我给房东打了三次电话", None),
    ],
)
def test_a_need_stated_in_chinese_is_heard(text: str, need: HiddenNeed | None) -> None:
    assert chinese.stated_need(text) is need


@pytest.mark.parametrize(
    ("changes", "reason"),
    [({"model": None}, "model"), ({"personas_per_scenario": 3}, "should be 1, 2, 4 or 8")],
)
def test_numbers_that_cannot_work_are_refused(changes: dict[str, object], reason: str) -> None:
    values: dict[str, object] = {
        "model": "m", "temperature": 1.0, "top_p": 1.0, "scenario_max_tokens": 9, "persona_max_tokens": 9, "max_repairs": 0,
        "personas_per_scenario": 8, "run_words": 5, "max_overlap": 0.2,
    }  # fmt: skip
    with pytest.raises(ValueError, match=reason):
        WriterParameters(**{**values, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(("arguments", "reason"), [(("fr", "train", 8, 7), "language must be"), (("en", "dev", 8, 7), "split must be"),
                                                   (("en", "train", 0, 7), "count must be 1 or more")])  # fmt: skip
def test_an_order_that_cannot_be_filled_is_refused(arguments: tuple[str, str, int, int], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        PersonaOrder(*arguments)
