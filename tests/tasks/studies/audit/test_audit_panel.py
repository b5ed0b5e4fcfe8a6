"""The panel of the audit, and how the panels of studies come into the page."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from report_run import write_run

from rlver.components.report.material import load_material
from rlver.components.report.page import page
from rlver.components.report.panels.listing import with_panels
from rlver.components.report.panels.panel import ReportRun
from rlver.tasks.stages.report import panels_of_studies
from rlver.tasks.studies.audit import panel as audit

RUN = ReportRun(seed=7, margin=0.05, model=None)


def test_the_panels_of_studies_are_found_in_their_rooms_and_stand_where_they_ask() -> None:
    of_studies = panels_of_studies()
    assert all(panel.file("html.j2") for panel in of_studies)
    names = [panel.name for panel in with_panels(of_studies)]
    assert names[-8:] == ["over_training", "ability", "honesty", "appraiser", "robustness", "audit", "dialogues", "notes"]
    lost = audit.PANEL._replace(after="nowhere")
    assert with_panels([lost])[-1] is lost


def test_where_policies_differ_every_reason_is_shown(tmp_path: Path) -> None:
    write_run(tmp_path, personas=4)
    material = load_material(tmp_path / "transcripts", tmp_path / "metrics", tmp_path / "logs")
    whys = {variant.name: f"the log of {variant.name}" for variant in material.variants}

    def audited(name: str) -> dict[str, object]:
        check = {"value": None, "ci95": None, "threshold": 1.0, "to_base": None, "to_base_ci95": None, "reference": None,
                 "reference_ci95": None, "outcome": "unknown"}  # fmt: skip
        checks = [{**check, "name": "growth", "why": whys[name]}, {**check, "name": "praise", "why": "the same"}]
        honest = {"final": None, "of_policy": None, "kept": None, "why": "not measured: nobody talks"}
        why = "too few personas: 1 of at least 10"
        return {"outcome": "unknown", "why": why, "second_appraiser": "s", "reference": honest, "checks": checks}

    variants = tuple(dataclasses.replace(one, metrics={**one.metrics, "audit": audited(one.name)}) for one in material.variants)
    material = dataclasses.replace(material, variants=variants)
    shown = audit.values(material, RUN)
    assert shown is not None
    assert shown["reasons"] == {"Growth": [f"{name}: {why}" for name, why in whys.items()], "Praise": ["the same"]}
    assert f"{material.variants[0].name}: honest supporter with the same score: not measured: nobody talks." in page(
        material, RUN, {}, [audit.PANEL]
    )
    assert "too few personas: 1 of at least 10; Growth, Praise" in page(material, RUN, {}, [audit.PANEL])
