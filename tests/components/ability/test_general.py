"""The harness, run for real on a model of one layer."""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from lm_eval.api import metrics

from rlver.components.ability import backends, general
from rlver.components.ability import tasks as packs
from rlver.components.ability.general import BenchmarkError, run_tasks
from rlver.components.ability.noninferiority import compare_general
from rlver.components.domain.files import BadFile, write_jsonl
from rlver.components.policy.tiny import small_world


@pytest.fixture(scope="module")
def results(tiny_model: Path) -> dict[str, Any]:
    return run_tasks(str(tiny_model), ["rlver_tiny_likelihood", "rlver_tiny_choice", "rlver_math500:sample"], None, 16, 0.05, 7)


@pytest.mark.long
def test_every_shipped_item_is_scored(results: dict[str, Any]):
    likelihood, choice = results["tasks"]["rlver_tiny_likelihood"], results["tasks"]["rlver_tiny_choice"]
    assert likelihood["n"] == len(likelihood["items"]) == len(small_world.likelihood_items())
    assert choice["n"] == len({item["doc"] for item in choice["items"]}) == len(small_world.choice_items())
    assert results["smoke_test"] is False
    assert json.loads(json.dumps(results, allow_nan=False)) == results


def test_the_value_is_the_mean_of_its_items_inside_its_interval(results: dict[str, Any]):
    for task in results["tasks"].values():
        mean = sum(item["score"] for item in task["items"]) / task["n"]
        assert task["value"] == pytest.approx(mean, abs=1e-5)
        assert task["ci95"]["lo"] <= task["value"] <= task["ci95"]["hi"]
        assert task["ci95"]["lo"] < task["ci95"]["hi"]  # also where all scores are equal


def test_an_untrained_model_knows_nothing(results: dict[str, Any]):
    low, high = results["tasks"]["rlver_tiny_choice"]["ci95"].values()
    assert low < 0.25 < high
    bits = results["tasks"]["rlver_tiny_likelihood"]
    assert bits["higher_is_better"] is False
    assert bits["value"] == pytest.approx(math.log2(261), rel=0.05)  # byte-level tokens: a uniform guess among 261
    assert results["tasks"]["rlver_math500:sample"]["value"] == 0


def test_only_writing_tasks_use_the_chat_template(results: dict[str, Any]):
    assert {name: task["as_chat"] for name, task in results["tasks"].items()} == {
        "rlver_tiny_likelihood": False,
        "rlver_tiny_choice": False,
        "rlver_math500:sample": True,
    }


def test_the_same_model_twice_is_identical_and_not_inferior(results: dict[str, Any], tiny_model: Path):
    again = run_tasks(str(tiny_model), ["rlver_tiny_choice"], None, 16, 0.05, 7)
    assert again["tasks"]["rlver_tiny_choice"] == results["tasks"]["rlver_tiny_choice"]
    comparison = compare_general(results, again, 0.05)
    assert comparison["outcome"] == "pass"
    assert comparison["not_compared"] == ["rlver_math500:sample", "rlver_tiny_likelihood"]


def test_likelihood_agrees_with_the_model_itself(results: dict[str, Any], tiny_model: Path):
    """Bits per byte by hand: each sentence after the end-of-text token."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    model = AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.float32)
    scores = [item["score"] for item in results["tasks"]["rlver_tiny_likelihood"]["items"]]
    by_hand = []
    for text in (str(item["text"]) for item in small_world.likelihood_items()):
        ids = torch.tensor([[tokenizer.eos_token_id, *tokenizer(text, add_special_tokens=False)["input_ids"]]])
        with torch.no_grad():
            log_p = torch.log_softmax(model(ids).logits[0, :-1].float(), dim=-1).gather(1, ids[0, 1:, None]).sum().item()
        by_hand.append(-log_p / math.log(2) / len(text.encode()))
    assert sorted(scores) == pytest.approx(sorted(by_hand), abs=1e-4)


def test_a_limit_is_a_smoke_test_on_the_first_items(tiny_model: Path):
    limited = run_tasks(str(tiny_model), ["rlver_tiny_choice"], 5, 16, 0.05, 7)
    assert (limited["smoke_test"], limited["tasks"]["rlver_tiny_choice"]["n"]) == (True, 5)


def test_one_item_has_no_interval(tiny_model: Path):
    with pytest.raises(BenchmarkError, match=r"one item has no interval; raise benchmark\.limit"):
        run_tasks(str(tiny_model), ["rlver_tiny_likelihood"], 1, 16, 0.05, 7)


def test_it_does_not_depend_on_the_current_directory(tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    assert run_tasks(str(tiny_model), ["rlver_tiny_likelihood"], 2, 2, 0.05, 7)["tasks"]["rlver_tiny_likelihood"]["n"] == 2
    assert not list(tmp_path.iterdir())


def test_thoughts_are_not_the_answer(tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A reply that thinks one box and says another is scored by what it says, `</think>` being a special token here."""
    import torch

    write_jsonl(tmp_path / "m.jsonl", [{"problem": "Six times seven?", "answer": "42"}, {"problem": "Two?", "answer": "41"}])
    seen = []

    def thinks_41_says_42(self: Any, context: Any, max_length: int, **_: Any) -> Any:
        seen.append(self.tokenizer.decode(context[0]))
        reply = self.tokenizer(r"<think>\boxed{41}</think>\boxed{42}<|im_end|>", add_special_tokens=False, return_tensors="pt").input_ids
        return torch.cat([context, reply.repeat(len(context), 1)], dim=1)

    monkeypatch.setattr(backends.HFLM, "_model_generate", thinks_41_says_42)
    task = run_tasks(str(tiny_model), [f"rlver_math500:{tmp_path / 'm.jsonl'}"], None, 4, 0.05, 7)["tasks"][
        f"rlver_math500:{tmp_path / 'm.jsonl'}"
    ]
    assert sorted(item["score"] for item in task["items"]) == [0, 1]
    assert task["value"] == 0.5
    assert all("You are a helpful assistant." in prompt and "boxed{}" in prompt for prompt in seen)


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        (["hendrycks_math500"], "use rlver_math500"),
        (["humaneval"], "use rlver_humaneval"),
        (
            ["rlver_nothing"],
            "unknown task rlver_nothing; ours are rlver_humaneval, rlver_math500, rlver_mbpp, rlver_tiny_choice, rlver_tiny_likelihood",
        ),
    ],
)
def test_unusable_tasks_are_refused_before_anything_runs(tiny_model: Path, tasks: list[str], message: str):
    with pytest.raises(BenchmarkError, match=message):
        run_tasks(str(tiny_model), tasks, None, 16, 0.05, 7)


def test_ifeval_without_its_data_is_refused(tiny_model: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("nltk.data.path", [])
    with pytest.raises(BenchmarkError, match="punkt_tab"):
        run_tasks(str(tiny_model), ["ifeval"], None, 16, 0.05, 7)


def test_a_missing_model_is_one_line(tmp_path: Path):
    with pytest.raises(BenchmarkError, match=r"config\.json is missing"):
        run_tasks(str(tmp_path), ["rlver_tiny_choice"], None, 16, 0.05, 7)


def test_math500_without_network_says_what_to_do(tiny_model: Path, monkeypatch: pytest.MonkeyPatch):
    def unreachable(*_: Any, **__: Any) -> None:
        raise ConnectionError("hub\nunreachable")

    monkeypatch.setattr(packs, "load_dataset", unreachable)
    with pytest.raises(BadFile, match=r"needs the network or a local file \(task rlver_math500:<file>\.jsonl\): hub unreachable"):
        run_tasks(str(tiny_model), ["rlver_math500"], None, 16, 0.05, 7)


def test_math500_from_the_hub_uses_its_test_split(tiny_model: Path, monkeypatch: pytest.MonkeyPatch):
    asked = []

    def hub(name: str, subset: str | None, split: str) -> list[dict[str, str]]:
        asked.append((name, subset, split))
        return [{"problem": "One?", "answer": "1", "level": "easy"}, {"problem": "Two?", "answer": "2", "level": "easy"}]

    monkeypatch.setattr(packs, "load_dataset", hub)
    assert run_tasks(str(tiny_model), ["rlver_math500"], None, 16, 0.05, 7)["tasks"]["rlver_math500"]["n"] == 2
    assert asked == [("HuggingFaceH4/MATH-500", None, "test")]


def sample(doc: str, score: float, prompt: str = "p", chosen: str = "none") -> dict[str, Any]:
    return {"doc_hash": doc, "doc_id": 3, "arguments": [[prompt]], "filter": chosen, "acc": score}


def test_exact_repeats_collapse_and_contradictions_are_refused():
    assert len(general._items("t", [sample("a", 1), sample("a", 1), sample("b", 0)], "acc", None)) == 2
    with pytest.raises(BenchmarkError, match="document 3 occurs twice"):
        general._items("t", [sample("a", 1), sample("a", 0)], "acc", None)
    with pytest.raises(BenchmarkError, match="is the model broken"):
        general._items("t", [sample("a", math.nan)], "acc", None)


def test_the_interval_is_over_clusters_of_items_where_there_are_several():
    def width(clusters: list[str]) -> float:
        items = [general.Item(f"d{number}", "p", float(number % 4 < 2), cluster) for number, cluster in enumerate(clusters)]
        low, high = general._summary("t", "acc", items, True, 0.05, 7)["ci95"].values()
        return high - low

    apart, alike = width([f"c{number}" for number in range(40)]), width([f"c{number % 4}" for number in range(40)])
    assert alike > 2 * apart, "four relations, each wholly right or wrong"
    assert width(["c"] * 40) == apart


def test_one_filter_is_scored():
    both = [sample("a", 0, chosen="strict-match"), sample("a", 1, chosen="flexible-extract")]
    assert [item.score for item in general._items("gsm8k", both, "acc", "flexible-extract")] == [1]
    assert [item.score for item in general._items("other", both, "acc", None)] == [0]


def test_an_unknown_task_of_the_harness_is_one_line(tiny_model: Path, monkeypatch: pytest.MonkeyPatch):
    class NoDefaults(general.TaskManager):  # reading the harness' index of 14,000 tasks takes 10 s
        def __init__(self, **given: Any) -> None:
            super().__init__(**{**given, "include_defaults": False})

    monkeypatch.setattr(general, "TaskManager", NoDefaults)
    with pytest.raises(BenchmarkError, match="task no_such_task could not be loaded"):
        run_tasks(str(tiny_model), ["rlver_tiny_choice", "no_such_task"], 3, 16, 0.05, 7)


def test_a_group_of_harness_tasks_is_one_task_over_all_their_items(tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Two YAML tasks with the same three documents, in a group, as mmlu is built: six items, not three."""
    write_jsonl(tmp_path / "rows.jsonl", [{"q": f"{n} and one is", "a": n % 2} for n in range(3)])
    for name in ("one", "two"):
        (tmp_path / f"{name}.yaml").write_text(
            f"task: part_{name}\ndataset_path: json\ndataset_kwargs:\n  data_files:\n    test: {tmp_path / 'rows.jsonl'}\n"
            f"  cache_dir: {tmp_path / 'cache'}\ntest_split: test\noutput_type: multiple_choice\ndoc_to_text: '{{{{q}}}}'\n"
            "doc_to_choice: ['even', 'odd']\ndoc_to_target: a\nmetric_list:\n  - metric: acc\n    aggregation: mean\n"
            "    higher_is_better: true\n"
        )
    (tmp_path / "group.yaml").write_text(
        "group: pair\ntask:\n  - part_one\n  - part_two\naggregate_metric_list:\n  - metric: acc\n    weight_by_size: true\n"
    )

    class OnlyThese(general.TaskManager):
        def __init__(self, **_: Any) -> None:
            super().__init__(include_path=str(tmp_path), include_defaults=False)

    monkeypatch.setattr(general, "TaskManager", OnlyThese)
    task = run_tasks(str(tiny_model), ["pair"], None, 16, 0.05, 7)["tasks"]["pair"]
    assert (task["metric"], task["n"], len({item["doc"] for item in task["items"]})) == ("acc", 6, 6)
    assert task["as_chat"] is False


def test_what_decides_is_a_mean_over_items():
    """lambada lists its perplexity first; wikitext has nothing else."""

    class Task:
        def __init__(self, **aggregated: Any) -> None:
            self.aggregated = aggregated

        def higher_is_better(self) -> dict[str, bool]:
            return {name: name == "acc" for name in self.aggregated}

        def aggregation(self) -> dict[str, Any]:
            return self.aggregated

    assert general._primary("lambada_openai", {"lambada_openai": Task(perplexity=metrics.perplexity, acc=metrics.mean)}) == ("acc", None)
    with pytest.raises(BenchmarkError, match=r"task wikitext: word_perplexity, bits_per_byte is no mean over items"):
        general._primary("wikitext", {"wikitext": Task(word_perplexity=metrics.weighted_perplexity, bits_per_byte=metrics.bits_per_byte)})
    two = {"a": Task(bleu=metrics.mean, acc=metrics.mean), "b": Task(acc=metrics.mean)}
    assert general._primary("group", two) == ("acc", None), "what both have"
    with pytest.raises(BenchmarkError, match=r"task group: bleu is no mean over items in all of its 2 tasks"):
        general._primary("group", {"a": Task(bleu=metrics.mean), "b": Task(acc=metrics.mean)})


def test_what_guessing_gets_right_is_not_made_up() -> None:
    def chance(kind: str, arguments: int = 4, doc: dict[str, Any] | None = None, **config: Any) -> float | None:
        task = SimpleNamespace(OUTPUT_TYPE=kind, config=SimpleNamespace(**{"process_results": None, **config}))
        return general._chance({"t": task}, {"t": [{"arguments": [0] * arguments, "doc": doc or {}}]})

    assert chance("multiple_choice") == 0.25 and chance("generate_until", doc={"question": "What is 6 times 7?"}) == 0.0
    assert chance("multiple_choice", process_results=print) is None, "several may be right"
    for choices in (["6", "7"], {"text": ["6", "7"], "label": ["A", "B"]}):
        assert chance("generate_until", doc={"choices": choices}) is None, "a letter is written"


def test_code_of_a_model_runs_in_our_tasks_only() -> None:
    """The harness' own would run it with the network, and with the files of whoever started it."""
    for name, unsafe in (("longproc_pseudo_to_code_2k", True), ("cruxeval_output", False)):
        with pytest.raises(BenchmarkError, match=f"task {name} is not offered: it runs code that the model wrote with no bounds"):
            general._refuse_unbounded_code(name, {name: SimpleNamespace(UNSAFE_CODE=unsafe)})
    general._refuse_unbounded_code("rlver_humaneval", {"rlver_humaneval": SimpleNamespace(UNSAFE_CODE=True)})
    general._refuse_unbounded_code("gsm8k", {"gsm8k": SimpleNamespace(UNSAFE_CODE=False)})
