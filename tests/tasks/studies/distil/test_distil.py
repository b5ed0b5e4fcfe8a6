"""`rlver distil` on recordings of the scripted user: what it learns, what it writes, and that nothing of it looks ahead."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from rlver.components.domain.persona import Persona
from rlver.components.domain.protocols import UnfamiliarUser
from rlver.components.domain.transcript import Dialogue, Turn
from rlver.components.settings.settings import load_settings
from rlver.components.users.distilled.appraiser import appraisals
from rlver.components.users.distilled.features import Known, known_from, known_of
from rlver.components.users.distilled.folder import ARRAYS, read_folder
from rlver.tasks.studies.distil import recordings as recordings_of
from rlver.tasks.studies.distil.examples import examples, known_shares, material
from rlver.tasks.studies.distil.learn import grid_of, learned_guard, refused_personas


def test_it_agrees_with_the_user_it_was_learned_from_on_personas_and_policies_it_has_not_seen(appraiser: Path) -> None:
    card = json.loads((appraiser / "fidelity.json").read_text())
    ((name, figures),) = card["splits"].items()
    assert name.startswith("locked personas with locked models (")
    free = figures["free_running"]
    assert free["expected"]["r"]["value"] > 0.3 and free["expected"]["r"]["ci95"][0] > 0.1
    assert free["expected"]["r"]["value"] > max(figures["baselines"][name]["r"]["value"] or 0 for name in ("mean", "length", "need"))
    assert "| teacher-forced, per turn | r of the expected change |" in (appraiser / "fidelity.md").read_text()


def test_the_same_words_get_the_same_appraisal_again_and_other_ends_change_nothing_before(
    appraiser: Path, recordings: list[Dialogue], people: list[Persona]
) -> None:
    """The leak test: all that comes after a reply is replaced, recorded emotions and reasons are gone, and its appraisal stays."""
    model, of = read_folder(appraiser), {persona.persona_id: known_of(persona) for persona in people}
    longest = sorted(recordings, key=lambda one: -len(one.turns))[:5]
    for dialogue in longest:
        known, whole = of[dialogue.persona_id], appraisals(model, of[dialogue.persona_id], dialogue.turns)
        assert appraisals(model, known, dialogue.turns) == whole
        for kept in range(1, len(dialogue.turns)):
            bare = [turn.model_copy(update={"appraisal": None, "emotion": None}) for turn in dialogue.turns[:kept]]
            other = [turn.model_copy(update={"user": "Fine. It was a lovely day and we all laughed."}) for turn in dialogue.turns[kept:]]
            assert appraisals(model, known, [*bare, *other])[:kept] == whole[:kept]


def test_every_change_has_reasons_that_stand_in_the_texts(appraiser: Path, recordings: list[Dialogue], people: list[Persona]) -> None:
    model, of = read_folder(appraiser), {persona.persona_id: known_of(persona) for persona in people}
    spans = 0
    for dialogue in recordings[:10]:
        for turn, appraisal in zip(dialogue.turns, appraisals(model, of[dialogue.persona_id], dialogue.turns), strict=True):
            for item in appraisal.evidence:
                assert item.span in (turn.user if item.what == "mood" else turn.assistant)
                spans += bool(item.span)
            assert appraisal.change in model.calibration.grid
            assert any(item.what.startswith("sure:") for item in appraisal.evidence) or appraisal.change == min(model.calibration.grid)
    assert spans > 20


def test_a_span_is_worth_what_its_weights_say(appraiser: Path, recordings: list[Dialogue]) -> None:
    """The worth of all units and the constants add up to the reading of the whole text."""
    from rlver.components.users.distilled.ngrams import read

    head, need = read_folder(appraiser).reply_head, recordings[0].hidden_need
    text = read(recordings[0].turns[0].assistant)
    constant = sum(float(head.constant[group, 0]) for group in head.groups(need))
    assert head.worth(text, need, 0).sum() + constant == pytest.approx(head.read(text, need)[0], abs=0.01)


def test_of_a_need_that_nobody_knows_nothing_was_learned(appraiser: Path, recordings: list[Dialogue]) -> None:
    """Recordings of others say needs of their own."""
    turns, model = recordings[0].turns, read_folder(appraiser)
    assert known_from("a hug", None, None) == known_from(None, None, None) == Known()
    assert known_from("sincere_praise", None, None) == Known("sincere_praise")
    assert appraisals(model, known_from("a hug", None, None), turns) == appraisals(model, Known(), turns)


def test_an_appraiser_of_other_languages_abstains(appraiser: Path, people: list[Persona]) -> None:
    turn = Turn(user="最近有些事搞得我头大，他那个态度，真让我摸不着头脑。", assistant="Tell me more about it.")
    with pytest.raises(UnfamiliarUser, match="at least"):
        appraisals(read_folder(appraiser), known_of(people[0]), [turn])


def test_the_card_says_how_many_held_out_users_the_guard_refuses(appraiser: Path, recordings: list[Dialogue]) -> None:
    """It refuses no user that it was learned from, and one who speaks another language."""
    (figures,) = json.loads((appraiser / "fidelity.json").read_text())["splits"].values()
    guard = figures["guard"]
    assert guard["personas"] == 20 and 0 <= guard["refused"] <= 20
    card = (appraiser / "fidelity.md").read_text()
    assert f"The guard takes the users of {guard['refused']} of 20 held-out personas for strangers." in card
    rows, parameters = examples(recordings[:9], {}), load_settings(appraiser.parent / "params.yaml").distil
    assert refused_personas(rows, range(9), range(9), parameters) == {"personas": 9, "refused": 0}
    foreign = recordings[9].model_copy(
        update={"turns": tuple(turn.model_copy(update={"user": "最近有些事搞得我头大。"}) for turn in recordings[9].turns)}
    )
    rows = examples([*recordings[:9], foreign], {})
    assert refused_personas(rows, range(9), [0, 9], parameters) == {"personas": 2, "refused": 1}


def test_what_is_undefined_on_the_learning_curve_is_no_zero(
    project: Path, recordings: list[Dialogue], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = load_settings(project / "params.yaml")
    unknown = {"value": None, "ci95": None, "n": 0}
    figures = {name: {"expected": {"r": unknown}, "change": {"sign_accuracy": unknown}} for name in ("teacher_forced", "free_running")}
    for name, value in (("fold_scored", None), ("fidelity_of", figures), ("refused_personas", {})):
        monkeypatch.setattr(recordings_of, name, lambda *_, value=value: value)
    _, curve = recordings_of.locked_split(material(examples(recordings, {}), settings.distil), settings)
    assert len(curve) == 3 and all(point["free_r"] is point["told_r"] is point["told_sign"] is None for point in curve)


def test_a_policy_that_said_next_to_nothing_leaves_others_unknown() -> None:
    assert known_shares(["I am sorry to hear it.", "ok", ""], np.array([0, 1, 1])).tolist() == [0, 1, 1]


def test_recordings_of_a_policy_that_collapsed_can_be_distilled_and_gibberish_is_still_found(
    project: Path, recordings: list[Dialogue]
) -> None:
    from rlver.components.users.distilled.ngrams import read

    good = [one for one in recordings if one.policy == "good"][:16]
    mute = [
        one.model_copy(update={"policy": "mute", "turns": tuple(turn.model_copy(update={"assistant": "ok"}) for turn in one.turns)})
        for one in good
    ]
    rows = examples([*good, *mute], {})
    guard = learned_guard(rows, rows.rows_of(range(len(rows.dialogues))), load_settings(project / "params.yaml").distil)
    assert guard.unreadable(read(good[0].turns[0].assistant), []) is None
    unreadable = guard.unreadable(read("Wqofk jzzrt bxx pllo vuqnr skkdj mmnoq ztr."), [])
    assert unreadable is not None and unreadable.what == "gibberish"


def test_the_folder_is_small_and_a_damaged_one_is_refused(appraiser: Path, tmp_path: Path) -> None:
    from rlver.components.domain.files import BadFile

    assert sum(path.stat().st_size for path in appraiser.iterdir()) < 50e6
    with pytest.raises(BadFile, match="rlver distil"):
        read_folder(tmp_path)
    for name in (ARRAYS, "appraiser.json"):
        (tmp_path / name).write_bytes((appraiser / name).read_bytes()[:-20])
    with pytest.raises(BadFile, match="not a distilled appraiser"):
        read_folder(tmp_path)


def test_the_trees_taken_out_of_scikit_learn_predict_as_it_does() -> None:
    from sklearn.ensemble import HistGradientBoostingRegressor

    from rlver.tasks.studies.distil.learn import arrays_of

    random = np.random.default_rng(0)
    rows = random.normal(size=(400, 6))
    target = rows[:, 0] * rows[:, 1] + random.normal(size=400)
    fitted = [HistGradientBoostingRegressor(max_iter=20, max_features=0.5, random_state=number).fit(rows, target) for number in range(2)]
    for ensembles in ([fitted[0]], fitted):
        assert arrays_of(ensembles).predict(rows) == pytest.approx(np.mean([one.predict(rows) for one in ensembles], axis=0))


@pytest.mark.parametrize(("rare", "grid"), [(0.0, (-2, 1, 3)), (0.3, (1,)), (0.49, (1,))])
def test_rare_changes_are_not_on_the_grid_and_the_most_frequent_always_is(rare: float, grid: tuple[int, ...]) -> None:
    assert grid_of(np.array([-2.0, 1.0, 1.0, 1.0, 3.0, 1.0, -2.0, 3.0, 3.0, -2.0]), rare) == grid
