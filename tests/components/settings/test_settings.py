"""Parameters: the files are the whole truth, and whatever is wrong with them is one readable line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_origin

import pytest
from ruamel.yaml import YAML

from rlver.components.settings.overlays import FREE
from rlver.components.settings.sections import Section
from rlver.components.settings.settings import Settings, SettingsError, digest_of, load_settings, with_simulator

ROOT = Path(__file__).parents[3]
OVERLAYS = sorted(path.stem for path in (ROOT / "params").glob("*.yaml"))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of params.yaml that a test may change."""
    (tmp_path / "params").mkdir()
    (tmp_path / "params.yaml").write_text((ROOT / "params.yaml").read_text(encoding="utf-8"), encoding="utf-8")
    return tmp_path


def change(project: Path, dotted: str, value: Any) -> Path:
    """params.yaml with one value changed, as DVC changes it; the value is YAML text."""
    path = project / "params.yaml"
    yaml = YAML()
    values = yaml.load(path.read_text(encoding="utf-8"))
    place = values
    *outer, last = dotted.split(".")
    for key in outer:
        place = place[key]
    place[last] = YAML(typ="safe").load(value)
    yaml.dump(values, path)
    return path


def refused(path: Path, variant: str | None = None) -> str:
    with pytest.raises(SettingsError) as error:
        load_settings(path, variant)
    message = str(error.value)
    assert "\n" not in message
    return message


def test_there_are_overlays_to_test() -> None:
    assert {"base", "grpo-think"} <= set(OVERLAYS), "params/ is empty or was renamed"


@pytest.mark.parametrize("variant", [None, *OVERLAYS])
def test_every_parameter_file_loads(variant: str | None) -> None:
    settings = load_settings(ROOT / "params.yaml", variant)
    assert Settings.model_validate_json(settings.model_dump_json()) == settings


def test_an_overlay_replaces_single_values_and_leaves_the_rest(project: Path) -> None:
    (project / "params" / "x.yaml").write_text("train: {steps: 3}\npolicy: {thinking: false}\n")
    plain, overlaid = load_settings(project / "params.yaml"), load_settings(project / "params.yaml", "x")
    assert (overlaid.train.steps, overlaid.policy.thinking) == (3, False)
    assert overlaid.model_copy(update={"train": plain.train, "policy": plain.policy}) == plain
    assert overlaid.digest() != plain.digest()


def test_an_empty_overlay_is_a_mistake_that_is_told(project: Path) -> None:
    (project / "params" / "x.yaml").write_text("# nothing yet\n")
    assert "params/x.yaml: no parameter in it" in refused(project / "params.yaml", "x")


def test_an_overlay_adds_to_prices_and_margins_that_are_there(project: Path) -> None:
    change(project, "endpoint.prices", "{mine: {million_in: 1.0, million_out: 2.0}}")
    path = change(project, "promotion.margins", "{old: 0.1, other: 0.2}")
    (project / "params" / "x.yaml").write_text(
        "endpoint: {prices: {deepseek-chat: {million_in: 0.27, million_out: 1.1}, mine: {million_in: 3.0}}}\n"
        "promotion: {margins: {new: 0.3, old: 0.4}}\n"
    )
    settings = load_settings(path, "x")
    prices = {name: (price.million_in, price.million_out) for name, price in settings.endpoint.prices.items()}
    assert prices == {"mine": (3.0, 2.0), "deepseek-chat": (0.27, 1.1)}
    assert settings.promotion.margins == {"old": 0.4, "other": 0.2, "new": 0.3}
    (project / "params" / "x.yaml").write_text("endpoint: {prices: {mine: {million_inn: 3.0}}}\n")
    assert "params/x.yaml: unknown key 'endpoint.prices.mine.million_inn'" in refused(path, "x")


def test_every_mapping_with_keys_of_the_users_own_is_free() -> None:
    def mappings(section: type[Section], before: str = "") -> Iterator[str]:
        for name, field in section.model_fields.items():
            kind = field.annotation
            if get_origin(kind) in (dict, Mapping):
                yield f"{before}{name}"
            elif isinstance(kind, type) and issubclass(kind, Section):
                yield from mappings(kind, f"{before}{name}.")

    assert set(mappings(Settings)) == FREE


@pytest.mark.parametrize(
    ("overlay", "key"),
    [("trian: {steps: 3}", "trian"), ("train: {stepz: 3}", "train.stepz"), ("seed: 1\nsimulator: {mood: 3}", "simulator.mood")],
)
def test_an_unknown_overlay_key_is_named_with_its_neighbours(project: Path, overlay: str, key: str) -> None:
    (project / "params" / "x.yaml").write_text(overlay + "\n")
    message = refused(project / "params.yaml", "x")
    assert f"params/x.yaml: unknown key '{key}'" in message and "params.yaml has" in message


def test_a_renamed_key_is_told_its_present_name(project: Path) -> None:
    (project / "params" / "x.yaml").write_text("audit: {limits: {parting: 1.0}}\n")
    told = "audit.limits.parting is now called audit.limits.reward_overoptimization; rename it there"
    assert refused(project / "params.yaml", "x").endswith(f"params/x.yaml: {told}")
    (project / "params.yaml").write_text((project / "params.yaml").read_text().replace("reward_overoptimization", "parting"))
    assert refused(project / "params.yaml").endswith(f"params.yaml: {told}")


def test_an_unknown_key_in_params_is_refused(project: Path) -> None:
    path = project / "params.yaml"
    path.write_text(path.read_text().replace("\nseed: 7\n", "\nsede: 7\n"))
    assert "sede" in refused(path), "and not that seed is missing"


def test_an_unknown_variant_is_told_which_there_are(project: Path) -> None:
    (project / "params" / "x.yaml").write_text("seed: 1\n")
    assert refused(project / "params.yaml", "y") == "unknown variant 'y': there is no params/y.yaml (known: x)"


@pytest.mark.parametrize("number", ["2e-06", "2e-6", "2.0e-06", "0.000002"])
def test_a_small_number_is_a_number_however_it_is_written(project: Path, number: str) -> None:
    """DVC writes 2e-06 for -S train.learning_rate=2e-6; YAML 1.1 readers take that for text."""
    path = project / "params.yaml"
    head, train = path.read_text(encoding="utf-8").split("\ntrain:")
    written = re.sub(r"(\n  learning_rate: )\S+", rf"\g<1>{number}", train, count=1)
    path.write_text(f"{head}\ntrain:{written}", encoding="utf-8")
    rate = load_settings(path).train.learning_rate
    assert rate == 2e-6 and isinstance(rate, float)


@pytest.mark.parametrize(
    ("key", "value", "got"),
    [
        ("train.learning_rate", "'2e-6'", "got '2e-6'"),
        ("simulator.kind", "oracle", "got 'oracle'"),
        ("simulator.llm.max_repairs", "-1", "got -1"),
        ("simulator.llm.max_quoted_characters", "0", "got 0"),
        ("simulator.llm.appraiser.temperature", "-0.1", "got -0.1"),
        ("simulator.llm.speaker.top_p", "0.0", "got 0.0"),
        ("simulator.llm.speaker.max_tokens", "0", "got 0"),
        ("endpoint.concurrency", "0", "got 0"),
        ("benchmark.limit", "0", "got 0"),
        ("endpoint.attempts", "0", "got 0"),
        ("endpoint.answer_timeout_s", "0.0", "got 0.0"),
        ("endpoint.requests_per_minute", "0", "got 0"),
        ("endpoint.tokens_per_minute", "1.5", "got 1.5"),
        ("endpoint.backoff_most_s", "-1.0", "got -1.0"),
        ("endpoint.breaker_failures", "0", "got 0"),
        ("endpoint.prices", "{m: {million_in: -1.0, million_out: 1.0}}", "got -1.0"),
        ("endpoint.prices", "{m: {million_in: 1.0}}", "endpoint.prices.m.million_out"),
        ("endpoint.budget", "-0.01", "got -0.01"),
        ("train.steps", "'70'", "got '70'"),
        ("train.steps", "70.5", "got 70.5"),
        ("train.steps", "true", "got True"),
        ("policy.thinking", "'yes'", "got 'yes'"),
        ("policy.thinking", "1", "got 1"),
        ("seed", "null", "got None"),
        ("train.algorithm", "reinforce", "got 'reinforce'"),
        ("simulator.difficulty", "brutal", "got 'brutal'"),
        ("benchmark.tasks", "[]", "got []"),
        ("train.group_size", "0", "got 0"),
        ("rollout.sampler", "sglang", "got 'sglang'"),
        ("train.gamma", "1.01", "got 1.01"),
        ("train.gae_lambda", "-0.1", "got -0.1"),
        ("policy.top_p", "1.5", "got 1.5"),
        ("policy.temperature", "-1.0", "got -1.0"),
    ],
)
def test_a_value_of_the_wrong_type_or_range_is_refused_by_name(project: Path, key: str, value: str, got: str) -> None:
    message = refused(change(project, key, value))
    assert key in message and got in message and "params.yaml" in message


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"simulator.emotion_start": "5"}, "emotion_floor <= emotion_start < emotion_ceiling"),
        ({"simulator.emotion_ceiling": "40"}, "emotion_floor <= emotion_start < emotion_ceiling"),
        ({"simulator.appraiser": "scripted:chalenging", "simulator.speaker": "talking"}, "unknown difficulty 'chalenging' of 'scripted'"),
        ({"simulator.appraiser": "scripted", "simulator.speaker": "talking:foo"}, "unknown difficulty 'foo' of 'talking'"),
        ({"train.rows_per_forward": "7"}, "divisible by rows_per_forward"),
        ({"train.credit": "turn", "train.scale_rewards": "group"}, "credit: turn needs scale_rewards"),
        ({"train.gamma": "0.5", "train.credit": "dialogue"}, "credit: dialogue pays the whole return"),
        ({"train.keep": "best", "train.processes": "2"}, "keep: best goes with processes: 1"),
        ({"train.group_size": "1"}, "group_size must be at least 2"),
        (
            {"train.algorithm": "ppo", "train.group_size": "1", "train.personas_per_step": "7", "train.rows_per_forward": "1"},
            "must be even",
        ),
        ({"train.curriculum": "staged"}, "curriculum: staged does not go with 1 difficulties"),
        ({"train.difficulties": "[vanilla, challenging]"}, "curriculum: none does not go with 2 difficulties"),
        ({"train.difficulties": "[vanilla, challenging]", "train.curriculum": "adaptive", "train.curriculum_high": "30"}, "< curriculum"),
        ({"reward.dense": "true"}, "reward.dense goes with train.algorithm: ppo"),
        ({"base.kind": "model", "base.model": "null"}, "base.model must name"),
        ({"base.dialogues": "2", "base.teaching_share": "0.8"}, "teaching_share 0.8 of 2 dialogues leaves none for the habits"),
        ({"rollout.sampler": "vllm", "train.processes": "2"}, "rollout.sampler: vllm goes with train.processes: 1, got 2"),
        ({"base.hidden_size": "130", "base.heads": "4"}, "divisible by base.heads"),
        ({"warmup.dialogues": "[stories_plain, []]"}, "at least 1 item"),
        ({"simulator.kind": "llm"}, "kind is llm, so llm.appraiser.model and llm.speaker.model must name models of the endpoint"),
        ({"simulator.kind": "llm", "simulator.appraiser": "scripted"}, "kind is llm, so llm.speaker.model must name"),
        ({"simulator.speaker": "talking", "simulator.appraiser": "llm"}, "kind is llm, so llm.appraiser.model must name"),
        ({"simulator.llm.combined": "true"}, "combined is one call to one model, so appraiser and speaker must have the same values"),
        ({"policy.max_reply_tokens": "2000", "policy.max_context_tokens": "1536"}, "max_reply_tokens must be less than max_context_tokens"),
        ({"train.ratio_cap": "1.2"}, "ratio_cap must be above 1 + epsilon_high"),
    ],
)
def test_what_cannot_go_together_is_refused(project: Path, changes: dict[str, str], message: str) -> None:
    for key, value in changes.items():
        path = change(project, key, value)
    assert message in refused(path)


def test_one_dialogue_for_habits_is_enough_and_a_model_of_somebody_else_needs_none(project: Path) -> None:
    change(project, "base.dialogues", "2")
    assert load_settings(change(project, "base.teaching_share", "0.7")).base.dialogues == 2  # 1.4 dialogues: 1
    change(project, "base.teaching_share", "0.8")
    change(project, "base.model", "somewhere")
    assert load_settings(change(project, "base.kind", "model")).base.teaching_share == 0.8


def test_of_an_llm_user_only_the_halves_that_play_need_models(project: Path) -> None:
    for key, value in {"kind": "llm", "appraiser": "scripted", "llm.speaker.model": "talker", "llm.appraiser.model": "null"}.items():
        path = change(project, f"simulator.{key}", value)
    assert load_settings(path).simulator.models == ["talker"]
    for key, value in {"kind": "scripted", "appraiser": "llm", "speaker": "llm", "llm.appraiser.model": "feeler"}.items():
        path = change(project, f"simulator.{key}", value)
    assert load_settings(path).simulator.models == ["feeler", "talker"]


def test_a_user_that_is_named_plays_alone(project: Path) -> None:
    for key, value in {"kind": "llm", "appraiser": "scripted", "speaker": "llm", "llm.speaker.model": "talker"}.items():
        path = change(project, f"simulator.{key}", value)
    settings = load_settings(path)
    assert with_simulator(settings, "scripted", None).simulator.parts == load_settings(ROOT / "params.yaml").simulator.parts
    assert with_simulator(settings, None, "challenging").simulator.parts == settings.simulator.parts
    assert with_simulator(settings, "llm", None, appraiser="scripted").simulator.appraiser == "scripted"


def test_a_missing_parameter_is_an_error_because_no_number_has_a_default(project: Path) -> None:
    path = project / "params.yaml"
    yaml = YAML()
    values = yaml.load(path.read_text(encoding="utf-8"))
    del values["train"]["beta"]
    yaml.dump(values, path)
    assert "train.beta: Field required" in refused(path)


def test_files_that_are_no_parameters_are_refused_in_one_line(project: Path) -> None:
    assert "no such file; run from the project's root" in refused(project / "other.yaml")
    path = project / "params.yaml"
    path.write_text("seed: [1, 2\nfoo: }")
    assert "not valid YAML" in refused(path)
    path.write_text("- a\n- b\n")
    assert "expected a mapping, got list" in refused(path)


def test_settings_cannot_be_changed() -> None:
    settings = load_settings(ROOT / "params.yaml")
    with pytest.raises(ValueError, match="frozen"):
        settings.seed = 8  # type: ignore[misc]


def test_a_digest_changes_with_any_value_and_not_with_the_order_of_keys() -> None:
    assert digest_of({"a": 1, "b": [2]}) == digest_of({"b": [2], "a": 1}) != digest_of({"a": 1, "b": [3]})
    assert len(digest_of({})) == 12


@pytest.mark.parametrize("algorithm", ["ppo", "grpo"])
@pytest.mark.parametrize("prompt", ["think", "direct"])
@pytest.mark.parametrize(
    ("suffix", "difficulties", "curriculum"),
    [("", ["vanilla"], "none"), ("-challenging", ["challenging"], "none"), ("-curriculum", ["vanilla", "challenging"], "adaptive")],
)
def test_an_overlay_trains_as_its_name_says(algorithm: str, prompt: str, suffix: str, difficulties: list[str], curriculum: str) -> None:
    settings = load_settings(ROOT / "params.yaml", f"{algorithm}-{prompt}{suffix}")
    train = settings.train
    assert (train.algorithm, settings.policy.thinking) == (algorithm, prompt == "think")
    assert (train.difficulties, train.curriculum) == (difficulties, curriculum)
    assert settings.simulator.difficulty == "vanilla", "the benchmark's user is not that of training"
    assert train.personas_per_step * train.group_size == 64, "every variant sees as many dialogues a step"


def test_a_seed_and_a_user_from_the_command_line_replace_those_of_the_files(project: Path) -> None:
    path = project / "params.yaml"
    plain = load_settings(path)
    other = load_settings(path, seed=8, difficulty="challenging")
    assert (other.seed, other.simulator.difficulty, plain.seed, plain.simulator.difficulty) == (8, "challenging", 7, "vanilla")
    assert other.model_copy(update={"seed": plain.seed, "simulator": plain.simulator}) == plain
    for wrong, message in (({"seed": -1}, "seed: Input should be greater"), ({"difficulty": "brutal"}, "simulator.difficulty: ")):
        with pytest.raises(SettingsError, match=message):
            load_settings(path, **wrong)  # type: ignore[arg-type]
