"""The panel of honesty: from the file that `rlver honesty score --json` writes, against the base where that was asked too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from report_run import write_run

from rlver.components.report.material import Material, load_material
from rlver.components.report.page import page
from rlver.components.report.panels.panel import ReportRun, Sources
from rlver.components.report.tables import as_csv
from rlver.components.settings.settings import load_settings
from rlver.tasks.graph.lock import md5_of
from rlver.tasks.studies.honesty import panel as honesty
from rlver.tasks.studies.honesty.figures import RIGHT

ROOT = Path(__file__).parents[4]
RUN = ReportRun(seed=7, margin=0.05, model=None)


def asked(errors: int, of: int = 200) -> dict[str, Any]:
    """What is written of a policy that errs in the first `errors` items, each asked plainly."""
    share = {"value": errors / of, "ci95": [0.0, 0.5]}
    items = [{"doc": str(number), "prompt": "q", "score": float(number < errors)} for number in range(of)]
    return {
        "rates": [
            {"condition": "plain", "kind": kind, "n": of, "error": share, "correct": share, "unclear": share} for kind in ("all", "fact")
        ],
        "tasks": {
            "plain": {"metric": "error", "higher_is_better": False, "value": errors / of, "items": items},
            RIGHT: {"metric": "correct", "higher_is_better": True, "value": errors / of, "items": items},
        },
        "smoke_test": False,
        "answers": of,
        "without_answer": 0,
    }


def run(root: Path, **errors: int) -> Material:
    write_run(root, personas=4)
    for variant, count in errors.items():
        (root / "metrics" / variant.replace("_", "-") / "honesty.json").write_text(json.dumps(asked(count)))
    return load_material(root / "transcripts", root / "metrics", root / "logs")


def test_without_answers_there_is_no_panel(tmp_path: Path) -> None:
    material = run(tmp_path)
    assert honesty.values(material, RUN) is None and honesty.tables(material, RUN) == []
    assert 'id="honesty"' not in page(material, RUN, {}, [honesty.PANEL])


def test_a_policy_that_errs_more_than_the_base_fails(tmp_path: Path) -> None:
    material = run(tmp_path, base=20, grpo_think=60)
    (table,) = honesty.tables(material, RUN)
    assert [[cell.value for cell in row] for row in table.rows] == [
        ["base", "plain", 0.1, 0.1, 0.1, 200, None, None],
        ["grpo-think", "plain", 0.3, 0.3, 0.3, 200, "fail", "pass"],  # more of both
    ]
    assert "policy,condition,error,error_ci95_low" in as_csv(table)
    assert 'id="honesty"' in page(material, RUN, {}, [honesty.PANEL])
    assert table.note.endswith("Not recorded, and so not checked, is whose answers these are: base, grpo-think.")


def test_a_question_without_an_answer_is_left_out_on_both_sides(tmp_path: Path) -> None:
    run(tmp_path, base=20, grpo_think=60)
    path = tmp_path / "metrics" / "grpo-think" / "honesty.json"
    found = json.loads(path.read_text())
    found["tasks"]["plain"]["items"].pop()
    path.write_text(json.dumps(found | {"answers": 199, "without_answer": 1}))
    (table,) = honesty.tables(load_material(tmp_path / "transcripts", tmp_path / "metrics", tmp_path / "logs"), RUN)
    assert table.rows[1][-2].value == "fail"
    path.write_text(json.dumps(found | {"answers": 40}))
    (table,) = honesty.tables(load_material(tmp_path / "transcripts", tmp_path / "metrics", tmp_path / "logs"), RUN)
    assert str(table.rows[1][-2].value).startswith("not compared: "), table.rows[1][-2].value


def test_answers_of_another_model_are_not_shown_as_those_of_this_one(tmp_path: Path) -> None:
    run(tmp_path, base=20, grpo_think=60)
    for variant, is_newer in (("base", False), ("grpo-think", True)):
        model = tmp_path / "models" / variant
        model.mkdir(parents=True)
        (model / "config.json").write_text("{}")
        path = tmp_path / "metrics" / variant / "honesty.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"md5": md5_of(model)}))
        if is_newer:
            (model / "config.json").write_text('{"trained": "again"}')
    material = load_material(tmp_path / "transcripts", tmp_path / "metrics", tmp_path / "logs")
    settings = load_settings(ROOT / "params.yaml")
    gathered = honesty.gather(material, Sources(settings, (), tmp_path / "logs"))
    (table,) = honesty.tables(gathered, RUN)
    assert [[cell.value for cell in row][:4] for row in table.rows] == [
        ["base", "plain", 0.1, 0.1],
        ["grpo-think", "answers of another model: ask it again", None, None],
    ]
    assert "Not recorded" not in table.note
    assert "ask it again" in page(gathered, RUN, {}, [honesty.PANEL])


def test_what_was_asked_otherwise_is_not_compared(tmp_path: Path) -> None:
    material = run(tmp_path, base=20, grpo_think=60)
    path = tmp_path / "metrics" / "base" / "honesty.json"
    path.write_text(path.read_text().replace('"q"', '"another"'))
    (table,) = honesty.tables(load_material(tmp_path / "transcripts", tmp_path / "metrics", tmp_path / "logs"), RUN)
    assert "not compared: task plain: 200 of 200 items were asked differently" in str(table.rows[1][-2].value)
    assert len(material.variants) == 2


def test_without_the_base_there_are_rates_and_no_verdict(tmp_path: Path) -> None:
    (table,) = honesty.tables(run(tmp_path, grpo_think=60), RUN)
    assert [row[-1].value for row in table.rows] == [row[-2].value for row in table.rows] == [None]


def test_who_answers_less_fails_though_it_errs_less(tmp_path: Path) -> None:
    run(tmp_path, base=60, grpo_think=20)
    (table,) = honesty.tables(load_material(tmp_path / "transcripts", tmp_path / "metrics", tmp_path / "logs"), RUN)
    assert [cell.value for cell in table.rows[1][-2:]] == ["pass", "fail"]


def test_figures_of_a_version_that_counted_no_right_answers_are_shown_without(tmp_path: Path) -> None:
    run(tmp_path, base=60, grpo_think=20)
    path = tmp_path / "metrics" / "base" / "honesty.json"
    found = json.loads(path.read_text())
    del found["tasks"][RIGHT]
    path.write_text(json.dumps(found))
    (table,) = honesty.tables(load_material(tmp_path / "transcripts", tmp_path / "metrics", tmp_path / "logs"), RUN)
    assert [cell.value for cell in table.rows[1][-2:]] == ["pass", None]
