"""docs/extending.md: every example, as it stands on the page, is one package that rlver finds and that works."""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fakes import FakeSampler, LetterChat, people
from micro import micro_model, micro_tokenizer
from ruamel.yaml import YAML
from small_project import make_project, train_arguments, weights

from rlver.components.domain import registry
from rlver.components.domain.files import read_json, write_jsonl
from rlver.components.domain.transcript import Dialogue
from rlver.components.policy.token_policy import Speaking, TokenPolicy
from rlver.components.replay.verification import NotRederivable, first_difference
from rlver.components.rollout.episode import Job, run_episodes
from rlver.components.settings.settings import Settings, SettingsError, load_settings
from rlver.flows.cli import main as rlver
from rlver.tasks.runtime import installed
from rlver.tasks.runtime.appraisers import recorded_user
from rlver.tasks.runtime.assembly import simulator

PAGE = Path(__file__).parents[1] / "docs" / "extending.md"
LONGEST = 30  # lines of an example
REPLIES = ("Thank you for telling me.", "I see.", "Why?")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def install(place: Path, version: str = "1.2") -> dict[str, Any]:
    """The package of the page, as pip would lay it out; its description."""
    (project,) = map(tomllib.loads, blocks("toml"))
    for text in blocks("python"):
        name = text.partition("\n")[0].removeprefix("# ")
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text, encoding="utf-8")
    (markup,) = blocks("html")
    (place / markup.partition("\n")[0].removeprefix("{# ").removesuffix(" #}")).write_text(markup, encoding="utf-8")
    info = place / f"acme-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['project']['name']}\nVersion: {version}\n")
    lines = [
        line
        for group, kinds in project["project"]["entry-points"].items()
        for line in (f"[{group}]", *(f"{name} = {target}" for name, target in kinds.items()))
    ]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    return project


def forget() -> None:
    registry._installed.cache_clear()
    importlib.invalidate_caches()
    for name in [name for name in sys.modules if name.partition(".")[0] == "acme"]:
        del sys.modules[name]


@pytest.fixture
def acme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the package lies, importable as long as the test runs."""
    install(tmp_path / "site")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    forget()
    yield tmp_path / "site"
    forget()


@pytest.fixture
def project(acme: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small project whose params.yaml has the sections of the page."""
    make_project(tmp_path)
    (sections,) = map(YAML(typ="safe").load, blocks("yaml"))
    values = YAML(typ="safe").load(tmp_path / "params.yaml")
    for section, added in sections.items():
        values[section] |= added
    YAML(typ="safe").dump(values, tmp_path / "params.yaml")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def settings_of(project: Path, overlay: str) -> Settings:
    (project / "params" / "v.yaml").write_text(overlay)
    return load_settings(project / "params.yaml", "v")


def held(settings: Settings) -> Dialogue:
    persona = people()[0][0]
    speaking = Speaking(policy="p", thinking=False, strip_thoughts=False, max_reply_tokens=200, max_context_tokens=100_000)
    policy = TokenPolicy(FakeSampler(lambda name, turn: REPLIES[turn % len(REPLIES)]), LetterChat(), speaking)
    (rollout,) = asyncio.run(run_episodes([Job("d1", persona, 7)], simulator(settings), policy, settings.simulator.rules, 1))
    return rollout.dialogue


def difference(dialogue: Dialogue, settings: Settings) -> Any:
    known = {persona.persona_id: persona for persona in people()[0]}
    return first_difference(dialogue, known, lambda tag, is_appraiser: recorded_user(settings, tag, is_appraiser, ""))


def test_a_workspace_depends_on_its_version(acme: Path) -> None:
    installed.code.cache_clear()
    assert json.loads(installed.code())["packages"] == ["acme 1.2"]
    installed.code.cache_clear()


def test_no_example_is_longer_than_a_screen() -> None:
    examples = blocks("python")
    assert len(examples) == 8
    assert {text.partition("\n")[0]: text.count("\n") for text in examples if text.count("\n") > LONGEST} == {}


def test_the_page_names_every_group_and_each_is_found(acme: Path) -> None:
    kinds = [one for one in vars(registry).values() if isinstance(one, registry.Registry)]
    (project,) = map(tomllib.loads, blocks("toml"))
    assert {one.group for one in kinds} == set(project["project"]["entry-points"])
    for one in kinds:
        (name,) = project["project"]["entry-points"][one.group]
        assert one.has(name) and one.origin(name) == "acme 1.2" and one.load(name), name
        assert f"`{one.group}`" in PAGE.read_text()


@pytest.mark.parametrize(
    ("overlay", "kind", "version"),
    [
        ("simulator: {appraiser: polite}", "polite+scripted", "polite-1 (acme 1.2) scripted-"),
        ("simulator: {appraiser: polite, speaker: parrot}", "polite+parrot", "polite-1 (acme 1.2) parrot-1 (acme 1.2)"),
        ("simulator: {kind: calm}", "calm", "polite-1 scripted-"),
    ],
)
def test_its_users_hold_dialogues_that_say_whose_they_are_and_are_derived_again(
    project: Path, overlay: str, kind: str, version: str
) -> None:
    settings = settings_of(project, overlay)
    dialogue = held(settings)
    assert dialogue.simulator.kind == kind and dialogue.simulator.version.startswith(version) and "acme 1.2" in dialogue.simulator.version
    points = 1 if kind == "calm" else 3
    assert [turn.emotion for turn in dialogue.turns] == [40 + points, 39 + points, 38 + points]  # one thank you, then two replies without
    assert difference(dialogue, settings) is None
    turns = (dialogue.turns[0].model_copy(update={"user": "Forged."}), *dialogue.turns[1:])
    assert "user" in str(difference(dialogue.model_copy(update={"turns": turns}), settings))


def test_another_version_of_the_package_does_not_derive_them(project: Path, acme: Path) -> None:
    settings = settings_of(project, "simulator: {appraiser: polite}")
    dialogue = held(settings)
    (acme / "acme-1.2.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.3\n")
    forget()
    with pytest.raises(NotRederivable, match=r"made by polite\+scripted polite-1 \(acme 1\.2\).*here that is polite-1 \(acme 1\.3\)"):
        difference(dialogue, settings)


def test_its_appraiser_appraises_recordings_and_verify_follows(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_jsonl(project / "in.jsonl", [held(settings_of(project, "policy: {thinking: false}")).model_dump(mode="json")])
    assert rlver(["appraise", "in.jsonl", "--appraiser", "polite", "--personas", "train.jsonl", "-o", "out.jsonl"]) == 0
    assert rlver(["verify", "out.jsonl", "--personas", "train.jsonl"]) == 0
    assert "every emotion follows from its replies" in capsys.readouterr().out
    assert '"polite-1 (acme 1.2)"' in (project / "out.jsonl").read_text()


@pytest.mark.long
def test_its_panel_stands_in_the_report_where_it_asks_and_only_with_something_to_show(project: Path, acme: Path) -> None:
    dialogue = held(settings_of(project, "policy: {thinking: false}"))
    loud = dialogue.model_copy(update={"turns": (dialogue.turns[0].model_copy(update={"assistant": "Oh! No!"}), *dialogue.turns[1:])})
    for name, said in (("quiet", dialogue), ("loud", loud)):
        write_jsonl(project / f"{name}.jsonl", [said.model_dump(mode="json")])
        assert rlver(["report", f"{name}.jsonl", "-o", name]) == 0
    assert "loud: 2 exclamation marks." in (page := (project / "loud" / "index.html").read_text())
    assert page.index('id="results"') < page.index('id="loudness"') < page.index('id="needs"')
    assert 'id="loudness"' not in (project / "quiet" / "index.html").read_text()


@pytest.mark.parametrize(
    ("overlay", "message"),
    [
        ("simulator: {polite: {points: many}}", r"simulator\.polite\.points: Input should be a valid integer"),
        ("simulator: {polite: {point: 3}}", r"unknown key 'simulator\.polite\.point'"),
        ("simulator: {kind: polite}", r"unknown simulator 'polite': choose one of calm, "),
        ("simulator: {speaker: nobody}", r"unknown speaker 'nobody': choose one of .*parrot"),
        ("reward: {kind: generous}", r"reward\.kind: .*unknown reward 'generous': choose one of brief, emotion"),
        ("train: {algorithm: reinforce}", r"unknown algorithm 'reinforce': choose one of grpo, ppo, rloo"),
        ("base: {kind: attic}", r"unknown source of models 'attic': choose one of .*shelf"),
    ],
)
def test_a_wrong_name_or_section_is_one_line(project: Path, overlay: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message) as raised:
        settings_of(project, overlay)
    assert "\n" not in str(raised.value)


def test_a_kind_whose_section_is_missing_is_refused(project: Path) -> None:
    values = YAML(typ="safe").load(project / "params.yaml")
    del values["reward"]["brief"]
    YAML(typ="safe").dump(values, project / "params.yaml")
    with pytest.raises(SettingsError, match=r"reward\.brief: Field required"):
        settings_of(project, "reward: {kind: brief}")


@pytest.mark.long
def test_its_model_its_reward_and_its_algorithm_train(project: Path) -> None:
    from rlver.components.policy.load import save_policy
    from rlver.tasks.stages import base, train

    save_policy(micro_model(), micro_tokenizer(), project / "shelf" / "small")
    (project / "params" / "v.yaml").write_text(
        "policy: {thinking: false}\nbase: {kind: shelf, model: small}\nreward: {kind: brief}\ntrain: {algorithm: rloo, scale_rewards: batch}\n"
    )
    assert base.main(["--variant", "v", "--out", "models/base", "--metrics", "base.json"]) == 0
    assert (read_json(project / "base.json", "")["model"], read_json(project / "base.json", "")["source"]) == ("shelf:small", "acme 1.2")
    assert train.main(train_arguments("v")) == 0
    assert not (weights(project / "models" / "v") == weights(project / "models" / "base")).all()
    (began,) = (json.loads(path.read_text()) for path in project.glob("scratch/v/v-*/began_with.json"))
    assert (began["reward brief"], began["algorithm rloo"]) == ("acme 1.2", "acme 1.2")


@pytest.mark.long
def test_its_study_is_a_command_and_a_broken_one_spoils_no_other(project: Path, acme: Path) -> None:
    write_jsonl(project / "in.jsonl", [held(settings_of(project, "policy: {thinking: false}")).model_dump(mode="json")])

    def run() -> subprocess.CompletedProcess[str]:
        command = (sys.executable, "-m", "rlver.flows.cli", "loudness", "in.jsonl")
        environment = os.environ | {"PYTHONPATH": f"{acme}:{PAGE.parents[1]}"}
        return subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)

    assert run().stdout == "0 in 3 replies\n"
    (acme / "acme" / "study.py").write_text("import nothing_of_this_name\n")
    done = run()
    assert "warning: study 'loudness' of acme 1.2 cannot be loaded" in done.stderr and "No such command" in done.stderr
