"""The seam of the report: a panel is a module, a template and a line in the listing; without its facts it is left out."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
from report_run import load, make_dialogues, write_run, write_transcripts

from rlver.components.domain.transcript import Evidence, SimulatorTag, StopReason
from rlver.components.report import panels
from rlver.components.report.material import Material, material_of
from rlver.components.report.page import page
from rlver.components.report.panels import portrait, strategies
from rlver.components.report.panels.listing import PANELS
from rlver.components.report.panels.panel import ReportRun
from rlver.components.report.panels.portrait import SIDE, Box, MapPlace, named, places
from rlver.components.report.portraits import estimate, replies_with_acts
from rlver.components.scoring.units import Sampling, Units

RUN = ReportRun(seed=7, margin=0.05, model=None)
PORTRAIT = {
    "judge": "estimated from dialogue acts",
    "capabilities": {
        name: {"value": value, "ci95": [value - 0.2, value + 0.2], "n": 20, "method": "estimate from acts"}
        for name, value in (("empathic_depth", 3.0), ("core_insight", 2.0), ("solution_crafting", 4.0), ("dialogue_guidance", 2.5))
    },
    "cognition": {"x": {"value": -2.5, "ci95": [-3.0, -2.0]}, "y": {"value": 2.5, "ci95": [2.0, 3.0]}},
    "behaviour": {"reply_words": 12.0, "acceptance": {"value": 0.52, "ci95": [0.5, 0.54]}, "note": "not a number", "silent": {"value": None}},
    "strategies": {"praise": {"replies": 59, "contribution": {"value": 2.1, "ci95": [1.0, 3.0]}}},
}  # fmt: skip


def with_metrics(material: Material, kind: str, **found: object) -> Material:
    """The material with more of one kind of metrics for its last variant."""
    *others, last = material.variants
    metrics = {**last.metrics, kind: {**last.metrics.get(kind, {}), **found}}
    return dataclasses.replace(material, variants=(*others, dataclasses.replace(last, metrics=metrics)))


def test_every_panel_is_a_module_and_a_template_of_its_name_and_is_listed_once():
    folder = Path(panels.__file__).parent
    modules = {path.stem for path in folder.glob("*.py")} - {"__init__", "panel", "listing"}
    names = [panel.name for panel in PANELS]
    assert sorted(names) == sorted(modules) == sorted(path.name.removesuffix(".html.j2") for path in folder.glob("*.html.j2"))
    assert {path.stem for ending in ("js", "css") for path in folder.glob(f"*.{ending}")} <= set(names)


def test_a_panel_without_facts_is_left_out_of_page_and_navigation(tmp_path: Path):
    write_transcripts(tmp_path, "base", make_dialogues("base", 8, 0.5, 1), None)
    text = page(load(tmp_path), RUN, {})
    sections = re.findall(r'<section id="(\w+)">', text)
    assert sections == ["results", "needs", "emotion", "course", "strategies", "ability", "dialogues", "notes"]
    assert re.findall(r'<a href="#(\w+)">', text) == sections


def test_any_kind_of_metrics_reaches_the_panels(tmp_path: Path):
    write_run(tmp_path, personas=4)
    (tmp_path / "metrics" / "grpo-think" / "audit.json").write_text('{"alarm": true}')
    base, trained = load(tmp_path).variants
    assert trained.metrics["audit"] == {"alarm": True} and "audit" not in base.metrics


def test_a_radar_reaches_as_far_as_its_values(finished_run: Path):
    material = with_metrics(load(finished_run), "sentient", portrait=PORTRAIT)
    (radar,) = portrait.radars(material)
    assert radar.variant == "grpo-think"
    # four axes: up, right, down, left of (120, 88); 56 units are 1 to 5, so 3 is 28 away, 2 is 14, 4 is 42, 2.5 is 21
    assert radar.outline == "M120.0,60.0L134.0,88.0L120.0,130.0L99.0,88.0Z"


def test_the_map_puts_structure_left_and_emotion_up_with_its_intervals(finished_run: Path):
    (place,) = places(with_metrics(load(finished_run), "sentient", portrait=PORTRAIT))
    assert (place.x, place.y) == (100.0, 100.0)  # of 400: a quarter from the left, a quarter from the top
    assert place.x_range == (80.0, 120.0) and place.y_range == (120.0, 80.0)


def test_names_on_the_map_cover_no_dot_and_no_other_name():
    heights = [100.0 + 3 * (number % 4) for number in range(16)]
    crowd = [MapPlace(f"grpo-think-{number:02d}", 200.0 + number, y, (0, 0), (0, 0), "") for number, y in enumerate(heights)]
    boxes = [Box(one.name_x, one.name_y - 10, one.name_x + 7.2 * 13, one.name_y + 3) for one in named(crowd)]
    dots = [Box(place.x - 6, place.y - 6, place.x + 6, place.y + 6) for place in crowd]
    assert not any(one.covers(other) for index, one in enumerate(boxes) for other in [*boxes[:index], *dots])
    assert all(one.left >= 0 and one.top >= 0 and one.right <= SIDE and one.bottom <= SIDE for one in boxes)
    assert any(one.leader for one in named(crowd)) and not named(crowd[:1])[0].leader


def test_a_portrait_is_drawn_and_its_tables_carry_intervals(finished_run: Path):
    material = with_metrics(load(finished_run), "sentient", portrait=PORTRAIT)
    text = page(material, RUN, {})
    for words in (
        "Cognition map",
        "Empathic depth",
        "estimated from dialogue acts",
        "0.50 to 0.54",
        "+2.1",
        "Capabilities: estimate from acts",
    ):
        assert words in text
    assert "not a number" not in text and ">59<" in text
    assert "Structured → creative" in text and "Solution → emotion" in text
    assert [table.name for table in portrait.tables(material, RUN)] == ["capabilities", "cognition", "length", "behaviour", "strategies"]


@pytest.mark.parametrize(
    "found",
    [{}, {"capabilities": {}}, {"cognition": {"x": {"value": 1}}}, {"capabilities": {"a": {"value": None}}}, {"acts": None}, {"acts": "x"}],
)
def test_a_portrait_with_holes_leaves_its_holes_out(finished_run: Path, found: dict[str, object]):
    material = with_metrics(load(finished_run), "sentient", portrait=found)
    assert portrait.radars(material) == [] and places(material) == []
    assert "</html>" in page(material, RUN, {})


@pytest.mark.parametrize("value", [None, "3", True, {"ci95": [1, 2]}, {"value": "much"}, [1]])
def test_what_is_no_number_is_no_estimate(value: object):
    assert estimate(value) is None


def test_replies_of_a_failed_dialogue_are_not_counted():
    held = make_dialogues("base", 3, 0.5, 1)
    failed = held[2].model_copy(update={"emotion_final": None, "stop_reason": StopReason.FAILED, "error": "x"})
    assert replies_with_acts([*held[:2], failed]) == replies_with_acts(held[:2]) != []


def test_replies_have_acts_only_where_the_appraiser_names_them():
    """The scripted user names what is no reply too; a learned appraiser names nothing, whatever its reasons are called."""
    held = make_dialogues("base", 3, 0.5, 1)
    appraisal = held[0].turns[0].appraisal
    assert appraisal is not None
    gibberish = Evidence(step="content", what="gibberish", points=-8)
    first = held[0].turns[0].model_copy(update={"appraisal": appraisal.model_copy(update={"evidence": (gibberish,)})})
    odd = held[0].model_copy(update={"turns": (first, *held[0].turns[1:])})
    found = replies_with_acts([odd, *held[1:]])
    assert found[0] == (odd.persona_id, 0, set()) and len(found) == len(replies_with_acts(held))
    learned = SimulatorTag(kind="distilled+scripted", difficulty="vanilla", version="1")
    assert replies_with_acts([one.model_copy(update={"simulator": learned}) for one in held]) == []


def test_acts_are_counted_by_turn(finished_run: Path):
    material = load(finished_run)
    (base, _) = strategies.flows(material)
    shares = {act: at_turns for act, at_turns, _ in base.rows}
    first = [dialogue.turns[0].appraisal for dialogue in material.variants[0].dialogues]
    named = sum(any(e.what == "platitude" for e in one.evidence) for one in first if one is not None)
    assert shares["Platitude"][0] == named / 20
    assert len(shares["Platitude"]) == 10


def test_shares_of_acts_are_those_of_the_portraits(tmp_path: Path):
    """So their intervals are over scenarios, where the score is told them."""
    write_transcripts(tmp_path, "base", make_dialogues("base", 8, 0.5, 1), None)
    units = Units({dialogue.persona_id: f"s{number // 4}" for number, dialogue in enumerate(make_dialogues("base", 8, 0.5, 1))})
    over = {
        name: material_of([tmp_path / "transcripts" / "base.jsonl"], None, {}, Sampling(200, 7, of))
        for name, of in (("p", Units()), ("s", units))
    }
    (by_persona,), (by_scenario,) = (strategies.tables(one, RUN) for one in over.values())
    drawn = over["s"].variants[0].metrics["sentient"]["portrait"]["acts"]
    for column, cell, other in zip(by_scenario.columns[1:], by_scenario.rows[0][1:], by_persona.rows[0][1:], strict=True):
        assert cell.value == drawn[column.key]["frequency"]["value"] == other.value
    assert [cell.ends for cell in by_scenario.rows[0][1:]] != [cell.ends for cell in by_persona.rows[0][1:]]
