"""verl's own agent-loop worker on a CPU: its configuration, dataset, registry, padding and batches. Its servers alone are replaced."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import fakes
import verl
from hydra import compose, initialize_config_dir
from micro import micro_model, micro_tokenizer
from replying import ROOT
from verl.experimental.agent_loop.agent_loop import AgentLoopWorker
from verl.protocol import DataProto
from verl.utils.dataset.rl_dataset import collate_fn, get_dataset_class
from verl.workers.rollout.replica import TokenOutput

from rlver.components.adapters.verl import environment
from rlver.components.adapters.verl_dataset import NAME
from rlver.components.domain.files import write_jsonl
from rlver.components.domain.thinking import system_prompt
from rlver.components.policy.chat import ChatFormat
from rlver.components.policy.sampler import Sample, SampleRequest
from rlver.components.policy.token_policy import Speaking, TokenPolicy
from rlver.components.policy.transformers_sampler import TransformersSampler
from rlver.components.rollout.episode import Job, Rollout, run_episodes

Says = Callable[[SampleRequest], Any]  # awaited for a Sample
OVERLAY = """policy: {thinking: THINKING, thoughts: THOUGHTS, max_reply_tokens: TOKENS, max_context_tokens: 1500}
simulator: {max_turns: 3}
"""
LONGEST = 20_000  # tokens of a dialogue: the micro tokenizer has few whole words


def project_in(folder: Path) -> Path:
    """Two people, and the variants `direct` and `strip`."""
    for name in ("params.yaml", "dvc.yaml"):
        shutil.copy(ROOT / name, folder / name)
    (folder / "params").mkdir()
    for name, thinking, thoughts, tokens in (("direct", "false", "keep", "12"), ("strip", "true", "strip", "60")):
        overlay = OVERLAY.replace("THINKING", thinking).replace("THOUGHTS", thoughts).replace("TOKENS", tokens)
        (folder / "params" / f"{name}.yaml").write_text(overlay)
    write_jsonl(folder / "people.jsonl", [one.model_dump(mode="json") for one in fakes.people()[0][:2]])
    return folder


class Micro:
    """A micro model that speaks, with draws that follow from the length of what it reads: the same whoever asks.

    With `thinks` what it draws is a thought, and a fixed reply follows.
    """

    def __init__(self, thinks: bool = False) -> None:
        self.thinks = thinks
        self.sampler = TransformersSampler(micro_model(scale=2.0), micro_tokenizer().eos_token_id, 1.0, 1.0, rows=8, capacity=2000)
        self.sampler.start()

    async def sample(self, request: SampleRequest) -> Sample:
        seeded = replace(request, seed=len(request.context_ids))
        if not self.thinks:
            return await self.sampler.sample(seeded)
        drawn = await self.sampler.sample(replace(seeded, max_tokens=8))
        end = micro_tokenizer().eos_token_id
        before, after = (micro_tokenizer().encode(text, add_special_tokens=False) for text in ("<think>", "</think>I see."))
        thought = [(token, logprob) for token, logprob in zip(drawn.token_ids, drawn.logprobs, strict=True) if token != end]
        said = [(token, -0.2) for token in before] + thought + [(token, -0.3) for token in (*after, end)]
        return Sample(tuple(token for token, _ in said), tuple(logprob for _, logprob in said), True)

    def start(self) -> None: ...

    async def close(self) -> None:
        await self.sampler.close()

    def forget(self, dialogue_id: str) -> None:
        self.sampler.forget(dialogue_id)


def our_own(project: Path, variant: str, rows: list[dict[str, Any]], sampler: Any) -> list[Rollout]:
    settings, simulator = environment(str(project / "params.yaml"), variant)
    policy = settings.policy
    speaking = Speaking(NAME, policy.thinking, policy.thinking, policy.max_reply_tokens, policy.max_context_tokens)
    told = system_prompt(policy.thinking)
    people = fakes.people()[0]
    jobs = [Job(f"{place}", people[row["index"]], row["extra_info"]["seed"]) for place, row in enumerate(rows)]
    talk = TokenPolicy(sampler, ChatFormat(micro_tokenizer(), told), speaking)
    return asyncio.run(run_episodes(jobs, simulator, talk, settings.simulator.rules, 8))


class Served:
    """verl's client of its servers (no dataclass: hydra would make a configuration of it). `says` answers; what was asked is kept."""

    def __init__(self, says: Says, stop_reason: str = "completed") -> None:
        self.says, self.stop_reason = says, stop_reason
        self.asked: list[tuple[SampleRequest, dict[str, Any]]] = []

    async def generate(self, request_id: str, *, prompt_ids: list[int], sampling_params: dict[str, Any]) -> TokenOutput:
        request = SampleRequest(request_id, tuple(prompt_ids), len(prompt_ids), sampling_params["max_tokens"])
        self.asked.append((request, sampling_params))
        sample: Sample = await self.says(request)
        step = len(self.asked)
        versions = {"global_steps": step, "min_global_steps": step, "max_global_steps": step}
        return TokenOutput(
            token_ids=list(sample.token_ids), log_probs=list(sample.logprobs), stop_reason=self.stop_reason, extra_fields=versions
        )


def configuration(folder: Path, variant: str | None, *more: str) -> Any:
    """verl's whole default configuration, with what docs/adapters.md sets; a micro model, its tokenizer and params.yaml lie in `folder`."""
    micro_model().save_pretrained(folder / "model")
    micro_tokenizer().save_pretrained(folder / "model")
    named = "" if variant is None else f"  variant: {variant}\n"
    loop = f"- name: rlver\n  _target_: rlver.components.adapters.verl.SupportAgentLoop\n  params: {folder / 'params.yaml'}\n{named}"
    (folder / "agent.yaml").write_text(loop)
    told = [
        f"actor_rollout_ref.model.path={folder / 'model'}",
        "actor_rollout_ref.rollout.name=vllm",
        "actor_rollout_ref.rollout.calculate_log_probs=True",
        "actor_rollout_ref.rollout.prompt_length=2000",
        f"actor_rollout_ref.rollout.response_length={LONGEST}",
        f"actor_rollout_ref.rollout.agent.agent_loop_config_path={folder / 'agent.yaml'}",
        "actor_rollout_ref.rollout.agent.default_agent_loop=rlver",
        "data.custom_cls.path=pkg://rlver.components.adapters.verl_dataset",
        "data.custom_cls.name=SupportDataset",
        f"data.train_files={folder / 'people.jsonl'}",
        "data.seed=7",
    ]
    with initialize_config_dir(str(Path(verl.__file__).parent / "trainer" / "config"), version_base=None):
        return compose("ppo_trainer", overrides=[*told, *more])


def rows_of(config: Any, copies: int = 1) -> list[dict[str, Any]]:
    """What verl's dataloader gives, each prompt `copies` times as for a group, with the ids that its trainer adds."""
    dataset = get_dataset_class(config.data)(data_files=config.data.train_files, tokenizer=None, config=config.data)
    rows = [{**dataset[place], "uid": f"u{place}"} for place in range(len(dataset)) for _ in range(copies)]
    return [{**row, "priority": place} for place, row in enumerate(rows)]


def generated(config: Any, served: Served, rows: Sequence[dict[str, Any]]) -> DataProto:
    """The batch that verl's worker makes of these rows."""

    async def run() -> DataProto:
        worker = AgentLoopWorker(config, served)
        batch: DataProto = await worker.generate_sequences(DataProto.from_single_dict(collate_fn(list(rows))))
        return batch

    return asyncio.run(run())
