"""The page: self-contained, safe, the same for the same input, and complete."""

from __future__ import annotations

import json
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from report_run import load, make_dialogues, make_failed, write_run, write_transcripts

from rlver.components.domain.files import BadFile, write_jsonl
from rlver.components.domain.transcript import Dialogue
from rlver.components.personas.generator import compose_personas
from rlver.components.personas.library import load_library
from rlver.components.report.dialogues import unpack
from rlver.components.report.page import page, write_report
from rlver.components.report.panels.panel import ReportRun
from rlver.tasks.stages import report as stage
from rlver.tasks.stages.report import panels_of_studies

RUN = ReportRun(seed=7, margin=0.05, model=None)
ATTACK = "<script>alert(1)</script>"
VOID = {"meta", "input", "br", "line", "polyline", "path", "use", "rect"}


class Elements(HTMLParser):
    """Start tags with their attributes, text outside scripts and styles, and tags that were closed out of order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.open: list[str] = []
        self.disorder: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID and (not self.open or self.open.pop() != tag):
            self.disorder.append(tag)

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] not in ("script", "style"):
            self.text.append(data)


def run_stage_report(run: Path, out: Path, *options: str) -> Path:
    """The report by the stage itself, with the project's parameters."""
    folders = [part for name in ("transcripts", "metrics", "logs") for part in (f"--{name}", str(run / name))]
    assert stage.main([*folders, *options, "--out", str(out), "--params", str(Path(__file__).parents[3] / "params.yaml")]) == 0
    return out


@pytest.fixture(scope="module")
def written(finished_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run_stage_report(finished_run, tmp_path_factory.mktemp("reports"))


@pytest.fixture(scope="module")
def html(written: Path) -> str:
    return (written / "index.html").read_text(encoding="utf-8")


def index_of(html: str) -> dict[str, Any]:
    """What the page knows of all its dialogues."""
    (packed,) = re.findall(r'<script type="text/plain" id="index">(.*?)</script>', html)
    return unpack(packed)


def texts_of(html: str) -> set[str]:
    """Everything that is said in the page's dialogues."""
    return {
        text for packed in re.findall(r'<script type="text/plain" class="chunk">(.*?)</script>', html) for text in unpack(packed)["texts"]
    }


def with_words(dialogue: Dialogue, words: str) -> Dialogue:
    """The same dialogue with the words in every place that a model or a persona can fill."""
    turns = []
    for turn in dialogue.turns:
        assert turn.appraisal is not None
        evidence = tuple(item.model_copy(update={"span": words}) for item in turn.appraisal.evidence)
        changes = {"content": words, "target": words, "activity": words, "feeling": words, "evidence": evidence}
        turns.append(
            turn.model_copy(
                update={"user": words, "assistant": words, "think": words, "appraisal": turn.appraisal.model_copy(update=changes)}
            )
        )
    return dialogue.model_copy(update={"turns": tuple(turns)})


@pytest.mark.long
def test_all_files_are_written(written: Path):
    names = sorted(str(path.relative_to(written)) for path in written.rglob("*") if path.is_file())
    figures = ("learning-curve", "need-bars", "need-map", "success-and-failure", "training-health", "trajectories")
    tables = (
        "ability",
        "audit",
        "audit-verdicts",
        "classes",
        "course",
        "endings",
        "extremes",
        "learning",
        "needs",
        "published",
        "results",
        "right-acts",
        "verdicts",
    )
    assert names == sorted(
        [
            "audit.json",
            "index.html",
            "results.md",
            *(f"tables/{t}.csv" for t in tables),
            *(f"plots/{f}.{end}" for f in figures for end in ("png", "svg")),
        ]
    )


def test_the_page_needs_nothing_from_outside(html: str):
    for tag, attributes in Elements(html).tags:
        assert tag not in ("link", "img", "iframe", "object", "base")
        for name in ("src", "href", "xlink:href", "action", "srcset"):
            assert (attributes.get(name) or "#").startswith("#")
    assert "@import" not in html
    assert re.findall(r"url\((?!#)", html) == []


def test_the_markup_is_well_formed_and_no_id_occurs_twice(html: str):
    elements = Elements(html)
    assert elements.disorder == [] and elements.open == []
    ids = Counter(attributes["id"] for _, attributes in elements.tags if "id" in attributes)
    assert [name for name, count in ids.items() if count > 1] == []


def test_the_page_says_what_the_run_is_and_what_it_is_not(html: str):
    text = " ".join(" ".join(Elements(html).text).split())
    for words in ("base, grpo-think", "scripted, vanilla, version scripted-1", "41 with 21 users", "3f9c0d51a2b4", "77aa01c2d3e4"):
        assert words in text
    assert "The tiny world is not a chatbot." in text
    assert "published, Qwen2.5-7B, DeepSeek-V3 user; no CI was published" in text
    for name, score in (("Qwen2.5-7B-Instruct (base)", "13.3"), ("PPO, think", "79.2"), ("GRPO, think", "72.0")):
        assert re.search(rf"{re.escape(name)} {score}", text)


def test_a_real_model_is_named_instead_of_the_tiny_world(finished_run: Path):
    text = page(load(finished_run), ReportRun(7, 0.05, "Qwen2.5-7B-Instruct"), {}, panels_of_studies())
    assert "The policies start from Qwen2.5-7B-Instruct." in text
    assert "tiny world is not a chatbot" not in text


@pytest.mark.long
def test_the_same_input_gives_the_same_bytes(finished_run: Path, written: Path, tmp_path: Path):
    run_stage_report(finished_run, tmp_path)
    files = [path.relative_to(written) for path in written.rglob("*") if path.is_file()]
    assert files
    assert [name for name in files if (written / name).read_bytes() != (tmp_path / name).read_bytes()] == []


def test_words_of_a_model_are_never_markup(tmp_path: Path):
    hostile = f"{ATTACK}</script><img src=x onerror=alert(2)>\"'"
    base = make_dialogues("base", 4, 0.2, 1)
    write_transcripts(tmp_path, "base", base, None)
    write_transcripts(tmp_path, "tuned", [with_words(dialogue, hostile) for dialogue in make_dialogues("tuned", 4, 0.8, 1)], base)
    text = page(load(tmp_path), RUN, {}, panels_of_studies())
    assert ATTACK not in text and "<img" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    elements = Elements(text)
    assert [tag for tag, _ in elements.tags].count("script") == 3  # the index, a chunk of dialogues, the page's own
    assert elements.disorder == []
    assert any(ATTACK in piece for piece in elements.text)  # a reader sees what was said
    assert hostile in texts_of(text)


@pytest.mark.long
def test_names_are_never_markup(tmp_path: Path):
    write_transcripts(tmp_path, "a<b>&c", make_dialogues("x", 4, 0.5, 1), None)
    material = load(tmp_path)
    write_report(material, RUN, tmp_path / "reports", panels_of_studies())
    text = (tmp_path / "reports" / "index.html").read_text()
    assert "a<b>" not in text and "a&lt;b&gt;&amp;c" in text
    assert Elements(text).disorder == []


def test_a_failed_dialogue_is_shown_as_failed(html: str):
    store = index_of(html)
    at = {name: index for index, name in enumerate(store["dialogue"])}
    failed = [row for row in store["dialogues"] if row[at["error"]] is not None]
    assert [store["texts"][row[at["error"]]] for row in failed] == ["turn 2: the context holds 1590 of 1600 tokens"]
    assert [store["texts"][row[at["outcome"]]] for row in failed] == ["unscorable"]
    assert "Unscorable" in html


def test_a_variant_without_metrics_is_shown_with_what_is_missing(tmp_path: Path):
    write_run(tmp_path, personas=6)
    (tmp_path / "metrics" / "grpo-think" / "sentient.json").unlink()
    (tmp_path / "metrics" / "grpo-think" / "general.json").unlink()
    text = page(load(tmp_path), RUN, {}, panels_of_studies())
    assert "metrics/grpo-think/sentient.json: run the score stage" in text
    assert "No trained policy was benchmarked." in text
    assert "The same user, before and after" not in text


def test_a_variant_of_which_nothing_could_be_scored_is_still_shown(tmp_path: Path):
    write_transcripts(tmp_path, "base", make_dialogues("base", 4, 0.5, 1), None)
    (tmp_path / "transcripts" / "tuned.jsonl").write_text(make_failed("tuned", 1).model_dump_json() + "\n")
    assert "tuned has transcripts but no metrics" in page(load(tmp_path), RUN, {}, panels_of_studies())


@pytest.mark.long
def test_plots_of_an_earlier_run_do_not_stay(finished_run: Path, tmp_path: Path):
    stale = tmp_path / "reports" / "plots" / "learning-curve.png"
    stale.parent.mkdir(parents=True)
    stale.write_bytes(b"old")
    (tmp_path / "reports" / "results.md").write_text("old")
    write_transcripts(tmp_path, "base", make_dialogues("base", 4, 0.5, 1), None)
    write_report(load(tmp_path), RUN, tmp_path / "reports", panels_of_studies())
    assert not stale.exists()


@pytest.mark.long
def test_a_report_that_was_broken_off_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    write_transcripts(tmp_path, "base", make_dialogues("base", 4, 0.5, 1), None)

    def broken_off(*_: Any) -> str:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("rlver.components.report.page.page", broken_off)
        with pytest.raises(KeyboardInterrupt):
            write_report(load(tmp_path), RUN, tmp_path / "reports", panels_of_studies())
    assert list((tmp_path / "reports" / "plots").iterdir()) and not (tmp_path / "reports" / "index.html").exists()
    write_report(load(tmp_path), RUN, tmp_path / "reports", panels_of_studies())
    assert (tmp_path / "reports" / "index.html").exists()


def test_the_stage_takes_the_classes_of_its_personas(tmp_path: Path):
    _, people = compose_personas(load_library(), seed=7, train=24, test=24)
    write_jsonl(tmp_path / "test.jsonl", [person.model_dump(mode="json") for person in people])
    renamed = zip(make_dialogues("base", 4, 0.5, 1), people, strict=False)
    dialogues = [dialogue.model_copy(update={"persona_id": person.persona_id}) for dialogue, person in renamed]
    write_jsonl(tmp_path / "transcripts" / "base.jsonl", [dialogue.model_dump(mode="json") for dialogue in dialogues])
    run_stage_report(tmp_path, tmp_path / "out", "--personas", str(tmp_path / "test.jsonl"))
    index = index_of((tmp_path / "out" / "index.html").read_text())
    at = {name: place for place, name in enumerate(index["dialogue"])}
    found = {index["texts"][row[at["persona"]]]: index["texts"][row[at["persona_class"]]] for row in index["dialogues"]}
    assert found == {person.persona_id: str(person.persona_class).capitalize() for person in people[:4]}


@pytest.mark.long
def test_what_robustness_wrote_is_on_the_page_of_the_whole_run(finished_run: Path, tmp_path: Path):
    row = {
        "about": "as they are", "dialogues": 8, "emotion_ci95": [18.0, 32.0], "emotion_mean": 25.0, "paired_to_unshifted": None,
        "shift": "unshifted", "unscorable": 0,
    }  # fmt: skip
    change = {"ci95": [-14.0, -6.0], "difference": -10.0, "p_holm": 0.01, "detectable": 5.0}
    shifts = [row, {**row, "shift": "typos-2", "emotion_mean": 15.0, "paired_to_unshifted": change}]
    policy = {"policy": "grpo-think", "shifts": shifts, "not_measured": {"terse-1": "too many failed"}}
    found = {"difficulty": "vanilla", "personas": 8, "policies": [policy], "second_opinions": []}
    (tmp_path / "robustness.json").write_text(json.dumps(found))
    out = run_stage_report(finished_run, tmp_path / "out", "--robustness", str(tmp_path / "robustness.json"))
    text = (out / "index.html").read_text(encoding="utf-8")
    assert 'id="robustness"' in text and 'id="learning"' in text and "terse-1 was not measured: too many failed" in text
    assert "typos-2,15.0" in (out / "tables" / "robustness-grpo-think.csv").read_text().lower()
    (tmp_path / "robustness.json").write_text("{}")
    with pytest.raises(BadFile, match="it is not what `rlver robustness` writes"):
        run_stage_report(finished_run, tmp_path / "out", "--robustness", str(tmp_path / "robustness.json"))
