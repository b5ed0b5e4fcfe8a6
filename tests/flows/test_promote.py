"""Promotion with a real registry: the first champion, a better one, a worse one, rollback, and a move that breaks half-way."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from evidence import ALARMED, CLEAN, general
from mlflow import MlflowClient
from ruamel.yaml import YAML

from rlver.components.domain.files import write_json
from rlver.tasks.graph import dvc
from rlver.tasks.tracking.registry import ModelRegistry, RegistryError


def promote(variant: str, **options: bool) -> tuple[str, str]:
    """The name of the flow's state and its message."""
    from rlver.flows.promote import promote as flow

    state = flow(variant, return_state=True, **options)
    return state.name, state.message or ""


@pytest.mark.long
def test_champions_follow_each_other_and_step_back(promotable: Path, prefect_server: None, tracking_uri: str):
    registry = ModelRegistry(tracking_uri)
    assert registry.champion() is None
    with pytest.raises(RegistryError, match="there is no champion"):
        registry.roll_back()

    assert promote("b", only_judge=True) == ("Judged", "b may be promoted")
    assert registry.champion() is None

    assert promote("a") == ("Completed", "version 1 (a) is the champion")
    assert promote("a") == ("Unchanged", "a is the champion already: version 1 (a)")
    assert promote("b") == ("Completed", "version 2 (b) is the champion, before it version 1 (a)")
    name, why = promote("a")
    assert name == "Refused" and why.startswith("gain over b: 48.5 → 45.5, paired -3.0")

    assert [str(version) for version in registry.roll_back()] == ["version 2 (b)", "version 1 (a)"]
    assert str(registry.champion()) == "version 1 (a)"
    with pytest.raises(RegistryError, match="nothing to go back to"):
        registry.roll_back()


@pytest.mark.long
def test_a_version_has_its_card_its_evidence_and_its_model(promotable: Path, prefect_server: None, tracking_uri: str):
    import mlflow
    from mlflow import MlflowClient
    from mlflow.artifacts import download_artifacts

    promote("a")
    client = MlflowClient(tracking_uri=tracking_uri)
    version = client.get_model_version_by_alias("rlver-policy", "champion")
    assert version.tags["variant"] == "a" and version.tags["md5"] == dvc.locked(promotable)["train@a"].outputs["models/a"]
    card = version.description
    for words in ("# a", "final emotion 45.5 [", "gain over base", "Apache-2.0", "train.algorithm", "data/personas.jsonl (MD5"):
        assert words in card
    evidence = ModelRegistry(tracking_uri).evidence(ModelRegistry(tracking_uri).champion())  # type: ignore[arg-type]
    assert len(evidence.dialogues) == 40 and evidence.general == general(100) and evidence.audit == CLEAN
    assert evidence.md5 == version.tags["md5"]
    mlflow.set_tracking_uri(tracking_uri)  # an alias is looked up in the store of the process
    model = Path(download_artifacts("models:/rlver-policy@champion"))
    assert (model / "MLmodel").is_file() and [file.name for file in (model / "artifacts" / "policy").iterdir()] == ["config.json"]


@pytest.mark.long
def test_the_card_of_a_trained_model_names_that_model_and_its_licence(promotable: Path, prefect_server: None, tracking_uri: str):
    params = promotable / "params.yaml"
    values = YAML(typ="safe").load(params.read_text())
    values["base"] |= {"kind": "model", "model": "acme/warm-7b"}
    YAML(typ="safe").dump(values, params)
    assert promote("a")[0] == "Completed"
    card = MlflowClient(tracking_uri=tracking_uri).get_model_version_by_alias("rlver-policy", "champion").description
    assert "- base: acme/warm-7b\n" in card and "- licence: that of acme/warm-7b, from which it was trained" in card
    assert "Apache-2.0" not in card


def repeat(root: Path, *stages: str) -> None:
    subprocess.run((sys.executable, "-m", "dvc", "repro", "-q", *stages), cwd=root, check=True)


def audit_says(audits: dict[str, Any]) -> Callable[[Path], None]:
    def change(root: Path) -> None:
        write_json(root / "made" / "report" / "audit.json", audits)
        repeat(root, "report")

    return change


def the_report_forgets_a(root: Path) -> None:
    graph = root / "dvc.yaml"
    graph.write_text("".join(line for line in graph.read_text().splitlines(keepends=True) if line.strip() != "- transcripts/a.jsonl"))
    repeat(root, "report")


def there_is_no_report(root: Path) -> None:
    graph = root / "dvc.yaml"
    before, _, rest = graph.read_text().partition("  report:\n")
    graph.write_text(before + rest[rest.index("  train:\n") :])


def a_was_asked_before_it_was_trained(root: Path) -> None:
    md5 = {"base": dvc.md5_of(root / "models" / "base"), "a": "0" * 32 + ".dir"}
    for name in md5:
        write_json(root / "metrics" / name / "honesty.json", {"tasks": {}, "md5": md5[name]})


@pytest.mark.long
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (audit_says({"a": ALARMED}), "hacking audit: alarm; alarm: stock phrases"),
        (audit_says({"base": CLEAN}), "a was not audited: run `rlver run --only report`"),
        (lambda root: write_json(root / "reports" / "audit.json", {"a": CLEAN}), "out of date: report;"),
        (the_report_forgets_a, "the stage report of dvc.yaml does not read transcripts/a.jsonl"),
        (there_is_no_report, "dvc.yaml has no stage report"),
        (a_was_asked_before_it_was_trained, "honesty: a: these answers are another model's"),
        (lambda root: (root / "models" / "a" / "config.json").write_text("{}"), "out of date: benchmark@a, converse@a"),
        (lambda root: (root / "params" / "a.yaml").write_text("promotion: {skill_kept: much}\n"), "promotion.skill_kept"),
    ],
    ids=["alarm", "not audited", "edited audit", "report without it", "no report", "old answers", "edited model", "wrong parameter"],
)
def test_an_alarm_a_gap_or_a_stale_stage_keeps_it_out(
    promotable: Path, prefect_server: None, tracking_uri: str, change: Callable[[Path], None], message: str
):
    change(promotable)
    name, why = promote("a")
    assert name in ("Refused", "Failed") and message in why
    assert ModelRegistry(tracking_uri).champion() is None


def test_an_unknown_variant_is_one_line(promotable: Path, prefect_server: None):
    assert promote("z") == ("Failed", "z is not a trained variant of dvc.yaml; there is a, b, base")


@pytest.mark.long
def test_a_move_that_breaks_leaves_no_version(promotable: Path, prefect_server: None, tracking_uri: str, monkeypatch: pytest.MonkeyPatch):
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException

    promote("a")

    def breaks(*_: Any) -> None:
        raise MlflowException("the server went away")

    monkeypatch.setattr(MlflowClient, "set_registered_model_alias", breaks)
    assert promote("b") == ("Failed", "MLflow: the server went away")
    monkeypatch.undo()
    registry = ModelRegistry(tracking_uri)
    assert str(registry.champion()) == "version 1 (a)"
    versions = MlflowClient(tracking_uri=tracking_uri).search_model_versions("name = 'rlver-policy'")
    assert [version.version for version in versions] == [1]
