"""Train and test are proven apart; the one known leak of the RLVER profiles is labelled."""

from __future__ import annotations

from pathlib import Path

import pytest
from profiles import STORY, profile, write_profiles

from rlver.components.domain.persona import Persona
from rlver.components.personas.profiles import import_profiles
from rlver.components.personas.split import SHAREABLE, LeakedSplit, census, labelled_split, leaks, overlap, split_metrics

Split = tuple[list[Persona], list[Persona]]
SHARED = Path(__file__).parents[3] / ".." / "shared" / "data" / "rlver"


def test_generated_splits_share_nothing(personas: Split) -> None:
    assert leaks(*personas) == []
    assert overlap(*personas) == dict.fromkeys(SHAREABLE, 0)
    assert labelled_split(*personas) == personas[1]


def test_a_copied_persona_is_a_leak_of_every_kind(personas: Split) -> None:
    train, test = personas

    assert overlap(train, [*test, train[0]]) == dict.fromkeys(SHAREABLE, 1)
    assert len(leaks(train, [*test, train[0]])) == len(SHAREABLE)


@pytest.mark.parametrize("field", ["persona_id", "portrait", "background", "name"])
def test_one_shared_field_is_enough_to_be_refused(personas: Split, field: str) -> None:
    train, test = personas
    leaking = test[3].model_copy(update={field: getattr(train[5], field)})

    with pytest.raises(LeakedSplit, match=f"1 .*{leaking.persona_id}"):
        labelled_split(train, [*test[:3], leaking, *test[4:]])


def test_a_shared_scenario_is_refused_even_under_other_names(personas: Split) -> None:
    train, test = personas
    leaking = test[0].model_copy(update={"story": train[0].story})

    with pytest.raises(LeakedSplit, match="scenario ids"):
        labelled_split(train, [leaking])


def imported(folder: Path, split: str, *people: tuple[str, str, str]) -> list[Persona]:
    rows = [profile(id=name, player=profile()["player"] + hobby, scene=STORY + place) for name, hobby, place in people]
    return import_profiles(write_profiles(folder / f"{split}.jsonl", *rows), split)


def test_imported_test_rows_are_labelled_clean_or_leaked(tmp_path: Path) -> None:
    train = imported(tmp_path, "train", ("a", "画画", "上海"), ("b", "爬山", "北京"))
    test = imported(tmp_path, "test", ("c", "画画", "广州"), ("d", "唱歌", "杭州"))

    labelled = labelled_split(train, test)

    assert [one.leaked for one in labelled] == [True, False]
    metrics = split_metrics(train, labelled)
    assert (metrics["test_clean"], metrics["test_leaked"], metrics["overlap"]["portraits"]) == (1, 1, 1)


def test_without_imported_train_rows_no_label_of_before_is_left(tmp_path: Path) -> None:
    test = [one.model_copy(update={"leaked": True}) for one in imported(tmp_path, "test", ("c", "画画", "广州"))]
    assert [one.leaked for one in labelled_split([], test)] == [None]


def test_a_shared_background_is_refused_in_imported_sets_too(tmp_path: Path) -> None:
    train = imported(tmp_path, "train", ("a", "画画", "上海"))
    test = imported(tmp_path, "test", ("c", "画画", "上海"))

    with pytest.raises(LeakedSplit, match="1 backgrounds"):
        labelled_split(train, test)


@pytest.mark.skipif(not SHARED.is_dir(), reason="the RLVER profiles are not beside the repository")
def test_the_rlver_profiles_are_54_leaked_and_46_clean() -> None:
    train = import_profiles(SHARED / "train_profile.jsonl.gz", "train")
    test = labelled_split(train, import_profiles(SHARED / "test_profile.jsonl.gz", "test"))

    assert sum(one.leaked is True for one in test) == 54
    assert sum(one.leaked is False for one in test) == 46
    assert census(train)["portraits"] == 402


def test_the_census_counts_what_is_there(personas: Split) -> None:
    counts = census(personas[0])

    assert counts["personas"] == counts["portraits"] == 48
    assert set(counts["by_need"].values()) == {6}
    assert set(counts["by_class"].values()) == {16}
    assert counts["scenarios"] == 12 and counts["scenario_min"] == counts["scenario_max"] == 4
    assert sum(counts["by_trait"].values()) == 3 * 48
    assert census([])["age_mean"] is None
