"""Distilling from real recordings of an LLM user, which lie outside the repository; without them these tests are skipped."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from distillation_settings import small_parameters

from rlver.components.domain.transcript import Dialogue
from rlver.components.rollout.transcripts import load_transcripts
from rlver.flows.cli import main


@pytest.fixture(scope="module")
def sage(repository_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty dialogues each of three of the recorded models, and an appraiser that was distilled from them."""
    files = sorted((repository_root / ".." / "shared" / "data" / "sage").glob("*.jsonl.gz"))
    if len(files) < 3:
        pytest.skip("no recorded SAGE dialogues in ../shared/data/sage; they are not part of the repository")
    folder = tmp_path_factory.mktemp("sage")
    for file in files[:3]:
        lines = gzip.decompress(file.read_bytes()).decode("utf-8").split("\n")[:40]
        (folder / file.name.removesuffix(".gz")).write_text("\n".join(lines), encoding="utf-8")
    small_parameters(repository_root, folder / "params.yaml")
    recorded = [str(path) for path in sorted(folder.glob("*.jsonl"))]
    assert main(["distil", *recorded, "-o", str(folder / "appraiser"), "--params", str(folder / "params.yaml")]) == 0
    return folder


@pytest.mark.long
def test_it_agrees_with_the_llm_user_on_unseen_personas_and_models(sage: Path) -> None:
    card = json.loads((sage / "appraiser" / "fidelity.json").read_text(encoding="utf-8"))
    ((_, figures),) = card["splits"].items()
    assert figures["free_running"]["expected"]["r"]["ci95"][0] > 0.2
    assert card["origin"]["users"] == ["sage vanilla recorded"] and len(card["origin"]["policies"]) == 3


def test_it_abstains_from_english(sage: Path, english: list[Dialogue], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "english.jsonl").write_text("\n".join(dialogue.model_dump_json() for dialogue in english), encoding="utf-8")
    named = f"distilled:{sage / 'appraiser'}"
    asked = ["appraise", str(tmp_path / "english.jsonl"), "--appraiser", named, "-o", str(tmp_path / "out.jsonl")]
    assert main([*asked, "--params", str(sage / "params.yaml")]) == 0
    assert "none of them scorable" in capsys.readouterr().out
    assert all("unlike those the appraiser was learned from" in str(one.error) for one in load_transcripts(tmp_path / "out.jsonl"))


@pytest.mark.long
def test_recorded_dialogues_that_were_imported_are_appraised_and_verified_with_what_the_record_says_of_the_user(
    sage: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = sorted(sage.glob("*.jsonl"))[0]
    imported, again = tmp_path / "imported.jsonl", tmp_path / "again.jsonl"
    named, params = f"distilled:{sage / 'appraiser'}", ["--params", str(sage / "params.yaml")]
    assert main(["import", "sage", str(source), "-o", str(imported)]) == 0
    assert main(["appraise", str(imported), "--appraiser", named, "-o", str(again), *params]) == 0
    assert main(["verify", str(again), "--appraiser", named, *params]) == 0
    assert "every emotion follows from its replies" in capsys.readouterr().out
    assert sum(one.error is None for one in load_transcripts(again)) >= 38
