"""Our prompts in MLflow's prompt registry: a new version only when the words change, and each run says which versions it used."""

from __future__ import annotations

import hashlib
import json
from importlib.resources import files

from rlver.tasks.tracking.records import StageRecord
from rlver.tasks.tracking.store import Store

LINKED = "mlflow.linkedPrompts"  # the tag behind the prompts that a run's page lists
_ROLES = {"policy": "rlver.components.domain", "user": "rlver.components.users.llm"}


def link(store: Store, run: str, record: StageRecord) -> None:
    """Register what the stage put to a model, by its own parameters: nothing where it asked none."""
    used = [_registered(store, name, text) for name, text in prompts_of(record).items()]
    if used:
        store.client.set_tag(run, LINKED, json.dumps(used))


def prompts_of(record: StageRecord) -> dict[str, str]:
    """The prompts of a stage that holds dialogues, by name: the policy's, and those of the user if a language model plays it."""
    parameters = record.parameters
    found: dict[str, str] = {}
    if (record.models or record.models_read) and "policy.thinking" in parameters and "simulator.kind" in parameters:
        found |= _texts("policy", "think" if parameters["policy.thinking"] == "True" else "direct")
        if parameters["simulator.kind"] == "llm":
            found |= _texts("user", "")
    return found


def _texts(role: str, prefix: str) -> dict[str, str]:
    folder = files(_ROLES[role]).joinpath("prompts")
    return {
        f"{role}.{one.name.removesuffix('.txt')}": one.read_text(encoding="utf-8").strip()
        for one in sorted(folder.iterdir(), key=lambda one: one.name)
        if one.name.startswith(prefix) and one.name.endswith(".txt")
    }


def _registered(store: Store, name: str, text: str) -> dict[str, str]:
    """Name and version of the newest version of a prompt if it has these words, else of a new one."""
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    latest = store.client.load_prompt(f"prompts:/{name}@latest", allow_missing=True, cache_ttl_seconds=0)
    if latest is None or latest.tags.get("sha256") != digest:
        latest = store.client.register_prompt(name, text, commit_message=f"sha256 {digest}", tags={"sha256": digest})
    return {"name": name, "version": str(latest.version)}
