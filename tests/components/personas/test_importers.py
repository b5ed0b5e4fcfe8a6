"""RLVER profiles become personas without loss, and malformed ones are all named."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path

import pytest
from profiles import RULES, STORY, TASK, profile, write_profiles

from rlver.components.domain.persona import TRAITS_OF_CLASS, HiddenNeed, PersonaClass
from rlver.components.personas.profiles import NEED_SIGNS, TRAIT_OF, UnreadableProfile, import_profiles, need_of, scene_parts
from rlver.components.personas.schema import InvalidPersonas

SHARED = Path(__file__).parents[3] / ".." / "shared" / "data" / "rlver"


@pytest.mark.parametrize("name", ["profiles.jsonl", "profiles.jsonl.gz"])
def test_a_profile_becomes_a_persona(tmp_path: Path, name: str) -> None:
    (one,) = import_profiles(write_profiles(tmp_path / name, profile(first_talk="我姐把钢琴卖了。")), "test")

    assert (one.persona_id, one.language, one.source, one.split) == ("profile-1", "zh", "rlver", "test")
    assert one.hidden_need is HiddenNeed.ATTENTIVE_LISTENING
    assert one.persona_class is PersonaClass.PASSIVE
    assert one.traits == ("introverted", "anxious", "tolerant")
    assert (one.name, one.age, one.gender, one.occupation) == ("陈小雨", 27, "f", "小学教师")
    assert one.first_line == "我姐把钢琴卖了。"
    assert one.need_text == TASK and TASK not in one.background
    assert one.background == STORY
    assert one.reactions == {
        "high": "语气平和，愿意多讲小时候练琴的事。",
        "low": "语气激动，一句话就想结束谈话。",
        "normal": "有些急躁，说话断断续续。",
        "serves": "认真听她说完，emotion会上升。",
        "misses": "急着讲道理，emotion会下降。",
    }


def test_the_source_record_comes_back_exactly(tmp_path: Path) -> None:
    rows = [profile(id="a", topic="钢琴", note="保留"), profile(id="b", first_talk="唉。唉。")]
    people = import_profiles(write_profiles(tmp_path / "p.jsonl", *rows), "train")

    assert [one.original for one in people] == rows
    assert [one.topic for one in people] == ["钢琴", ""]


def test_optional_fields_may_be_missing(tmp_path: Path) -> None:
    player = "一位喜欢安静的人，平时在家里写信、种花、听老唱片，说话不多，朋友不多，却总记得别人的生日，也会寄出自己做的小卡片。"
    (one,) = import_profiles(write_profiles(tmp_path / "p.jsonl", profile(player=player)), "train")

    assert (one.first_line, one.name, one.age, one.gender, one.occupation) == (None, None, None, None, None)


def test_rules_that_cannot_be_told_apart_stay_whole() -> None:
    rules = RULES.replace("贴合", "好的").replace("偏离", "坏的")
    background, reactions = scene_parts(f"{STORY}{rules}\n####隐藏主题:\n***{TASK}")

    assert background == STORY
    assert reactions == {"text": rules.strip()}


def test_rules_without_a_heading_are_still_cut_off() -> None:
    prose = "当emotion很高的时候，她会说很多。"
    assert scene_parts(f"{STORY}\n\n如果聊得好，{prose}") == (STORY, {"text": f"如果聊得好，{prose}"})
    assert scene_parts(STORY) == (STORY, {})


def test_a_need_stated_inside_the_story_is_dropped() -> None:
    background, _ = scene_parts(STORY.replace("**事件起因**", f"**隐藏主题：**  \n{TASK}\n\n**事件起因**"))

    assert TASK not in background and "隐藏主题" not in background
    assert "外婆的旧钢琴" in background


def test_every_bad_row_is_named_with_its_field(tmp_path: Path) -> None:
    without_scene = {key: value for key, value in profile().items() if key != "scene"}
    rows = [
        profile(id="ok"),
        without_scene,
        profile(id="c", main_cha="开朗型"),
        profile(id="d", cha_group=["内向", "阳光", "宽容"]),
        profile(id="e", cha_group=["内向"]),
        profile(id="f", task="你想中彩票"),
        profile(id="g", task="你希望对方倾听并给出建议"),
        profile(id="h", age=27),
        profile(id="i", main_cha="开朗型", task="你想中彩票"),
        profile(id="j", player=["不是文字"]),
        profile(id="k", player="* 年龄：120岁\n" + profile()["player"].replace("* 年龄：27岁\n", "")),
        profile(id="l", cha_group=["愤怒", "焦虑", "宽容"]),
        profile(id="ok"),
        "{broken",
    ]

    with pytest.raises(InvalidPersonas) as raised:
        import_profiles(write_profiles(tmp_path / "p.jsonl", *rows), "train")

    assert Counter((one.line, one.field) for one in raised.value.problems) == Counter(
        [
            (1, "persona_id"),
            (2, "scene"),
            (3, "main_cha"),
            (4, "cha_group"),
            (5, "cha_group"),
            (6, "task"),
            (7, "task"),
            (8, "age"),
            (9, "main_cha"),
            (9, "task"),
            (10, "player"),
            (11, "age"),
            (12, "traits"),
            (13, "persona_id"),
            (14, "row"),
        ]
    )


def test_an_unknown_split_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="train or test"):
        import_profiles(write_profiles(tmp_path / "p.jsonl", profile()), "dev")


def test_the_trait_words_are_the_28_of_the_method() -> None:
    assert len(TRAIT_OF) == 28
    assert set(TRAIT_OF.values()) == {trait for pool in TRAITS_OF_CLASS.values() for trait in pool}
    assert set(NEED_SIGNS) == set(HiddenNeed)


def test_a_need_that_fits_nothing_is_refused() -> None:
    with pytest.raises(UnreadableProfile, match="fits 0 hidden needs"):
        need_of("你想睡觉")


@pytest.mark.skipif(not SHARED.is_dir(), reason="the RLVER profiles are not beside the repository")
@pytest.mark.parametrize(
    ("split", "rows", "needs"),
    [("train", 500, (66, 66, 66, 64, 63, 60, 58, 57)), ("test", 100, (11, 13, 12, 13, 12, 11, 15, 13))],
)
def test_all_rlver_profiles_come_back_exactly(split: str, rows: int, needs: tuple[int, ...]) -> None:
    source = SHARED / f"{split}_profile.jsonl.gz"
    people = import_profiles(source, split)

    with gzip.open(source, "rt", encoding="utf-8") as file:
        assert [one.original for one in people] == [json.loads(line) for line in file]
    assert len(people) == rows
    assert tuple(Counter(one.hidden_need for one in people)[need] for need in HiddenNeed) == needs
    assert all(one.name and one.age and one.gender and one.occupation for one in people)
    assert all("隐藏主题:" not in one.background and one.need_text not in one.background for one in people)
    assert sum("serves" in one.reactions for one in people) >= 0.9 * rows
