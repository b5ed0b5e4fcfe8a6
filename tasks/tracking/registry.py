"""The registry of policies in MLflow: numbered versions, each with its model card and the evidence for it, and the alias `champion`.

A version's evidence (transcripts, general.json, audit.json, honesty.json) lies in the run that registered it, so that the next candidate can be compared with
a champion whose files are long gone from the folder.

A variant on its way into the registry: what DVC and the folder know of it, and its model card.
"""

from __future__ import annotations

import json
import logging
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlver.components.ability.noninferiority import read_general
from rlver.components.domain.files import read_json
from rlver.components.domain.persona import Persona
from rlver.components.rollout.transcripts import load_transcripts
from rlver.components.scoring.units import Sampling
from rlver.components.settings.sections import TINY
from rlver.components.settings.settings import Settings, load_settings
from rlver.tasks.graph import dvc
from rlver.tasks.graph.dvc import LockedStage
from rlver.tasks.runtime import environment
from rlver.tasks.runtime.people import known_personas
from rlver.tasks.tracking import models, records
from rlver.tasks.tracking.cards import LOCAL_BASE, Facts, card
from rlver.tasks.tracking.promotion import Condition, GateRules, PromotionEvidence, table
from rlver.tasks.tracking.store import Store, ended, make_database, readable

if TYPE_CHECKING:
    from mlflow.entities.model_registry import ModelVersion

MODEL = "rlver-policy"
CHAMPION = "champion"
BEFORE = "champion_before"  # tag of a version that became champion: the number of the one before it, "none" for the first
EVIDENCE = ("transcripts.jsonl", "general.json", "audit.json", "honesty.json")
CARD = "card.md"
_DESCRIPTION_CHARACTERS = 4000


class RegistryError(ValueError):
    """What was asked of the registry cannot be done; one line that says what to do."""


@dataclass(frozen=True)
class Version:
    """A registered policy. `md5` is DVC's of the model folder; `before` is the version that was champion before it, None: nobody or never."""

    number: str
    variant: str
    md5: str
    run: str
    before: str | None

    def __str__(self) -> str:
        return f"version {self.number} ({self.variant})"


class ModelRegistry:
    """One MLflow registry. Every method raises TrackingUnavailable when it cannot be reached."""

    def __init__(self, uri: str) -> None:
        from mlflow import MlflowClient

        logging.getLogger("mlflow.store.db.utils").setLevel(logging.WARNING)
        with readable():
            registry = environment.registry_uri(uri)
            make_database(uri)
            make_database(registry)
            self._uri, self._client = uri, MlflowClient(tracking_uri=uri, registry_uri=registry)

    def champion(self) -> Version | None:
        """Who has the alias; None while nobody does."""
        with readable():
            if not self._client.search_registered_models(f"name = '{MODEL}'", max_results=1):
                return None
            number = self._client.get_registered_model(MODEL).aliases.get(CHAMPION)
            return None if number is None else _version(self._client.get_model_version(MODEL, number))

    def evidence(self, version: Version) -> PromotionEvidence:
        """What was known of a version when it was registered."""
        with readable(), tempfile.TemporaryDirectory() as folder:
            files = Path(self._client.download_artifacts(version.run, "evidence", folder))
            transcripts, *others = (files / name for name in EVIDENCE)
            return PromotionEvidence(version.variant, version.md5, load_transcripts(transcripts), *map(_read_json, others))

    def register(self, variant: str, md5: str, card: str, evidence: Mapping[str, str], tags: Mapping[str, str]) -> Version:
        """A new version of the logged model with this MD5, with its card and the texts of its evidence. Raises RegistryError if MLflow has no such model."""
        with readable():
            experiment = self._client.get_experiment_by_name(environment.experiment())
            logged = models.known(Store(self._client, experiment.experiment_id, self._uri), md5, "full") if experiment else []
            if experiment is None or not logged:
                raise RegistryError(
                    f"MLflow does not hold all of the model of {variant}: set tracking.log_models to full where it stands, then run "
                    "`rlver mlflow sync` (`rlver run` would train a variant again whose overlay has changed)"
                )
            if not self._client.search_registered_models(f"name = '{MODEL}'", max_results=1):
                self._client.create_registered_model(
                    MODEL, description="Empathetic dialogue policies; the alias `champion` is the one in use."
                )
            run = self._client.create_run(
                experiment.experiment_id, run_name=f"register {variant}", tags={"variant": variant, "stage": "register", **tags}
            ).info.run_id
            with ended(self._client, run):
                self._client.log_text(run, card, CARD)
                for name, text in evidence.items():
                    self._client.log_text(run, text, f"evidence/{name}")
                made = self._client.create_model_version(
                    MODEL,
                    source=logged[0].artifact_location,  # by its address alone: models:/ is looked up in a store of the process's own
                    run_id=run,
                    model_id=logged[0].model_id,
                    description=card[:_DESCRIPTION_CHARACTERS],
                    tags={"variant": variant, "md5": md5, **tags},
                )
            return _version(self._client.get_model_version(MODEL, made.version))

    def withdraw(self, version: Version, over: Version | None) -> None:
        """Take back a version that `register` made; should it have the alias already, `over` gets it back."""
        with readable():
            if over and str(self._client.get_registered_model(MODEL).aliases.get(CHAMPION)) == version.number:
                self._client.set_registered_model_alias(MODEL, CHAMPION, over.number)
            self._client.delete_model_version(MODEL, version.number)
            self._client.set_terminated(version.run, "FAILED")

    def crown(self, version: Version, over: Version | None) -> None:
        """Make a version the champion; it remembers `over`, who was. Raises RegistryError where another is by now, with which it was not compared."""
        if (now := self.champion()) != over:
            raise RegistryError(f"the champion has changed to {now} since this was judged; promote again to be compared with it")
        with readable():
            self._client.set_model_version_tag(MODEL, version.number, BEFORE, over.number if over else "none")
            self._client.set_registered_model_alias(MODEL, CHAMPION, version.number)

    def roll_back(self) -> tuple[Version, Version]:
        """The champion's alias goes back to the one before it; returns both. Raises RegistryError when there is none."""
        now = self.champion()
        if now is None:
            raise RegistryError("there is no champion; `rlver promote VARIANT` makes one")
        if now.before is None:
            raise RegistryError(f"{now} is the first champion: there is nothing to go back to")
        with readable():
            previous = _version(self._client.get_model_version(MODEL, now.before))
            self._client.set_model_version_tag(MODEL, now.number, "rolled_back", "true")
            self._client.set_registered_model_alias(MODEL, CHAMPION, previous.number)
        return now, previous


def _version(found: ModelVersion) -> Version:
    before = found.tags.get(BEFORE)
    return Version(
        str(found.version), found.tags["variant"], found.tags["md5"], str(found.run_id), None if before in (None, "none") else before
    )


BASE = "base"
REPORT, AUDITS = "report", Path("reports") / "audit.json"
_AFTER_TRAINING = ("converse", "score", "benchmark")


class NotReady(ValueError):
    """The variant cannot be judged yet; the message says what to run."""


@dataclass(frozen=True)
class Candidate:
    """A variant whose stages are up to date. `texts` are its evidence by the name it has in the registry."""

    variant: str
    md5: str
    evidence: PromotionEvidence
    texts: Mapping[str, str]
    facts: Facts
    settings: Settings
    tags: Mapping[str, str]
    personas: Sequence[Persona]  # of the test, where the project has them

    def card(self, found: Sequence[Condition]) -> str:
        return card("champion", facts=self.facts, conditions=table(found))

    def gate_rules(self) -> GateRules:
        how = Sampling.over(self.personas, self.settings.evaluation.bootstrap_samples, self.settings.seed)
        return GateRules(self.settings.promotion, how)


def candidate(root: Path, variant: str) -> Candidate:
    """Everything about a trained variant of the root pipeline. Raises NotReady."""
    plan = {step.name: step for step in dvc.plan(root)}
    known = plan.keys()
    training = {what: name for name, what in dvc.trained(known).items()}
    stages = [training.get(variant, ""), *(f"{stage}@{variant}" for stage in _AFTER_TRAINING)]
    if not set(stages) <= known:
        raise NotReady(f"{variant} is not a trained variant of dvc.yaml; there is {', '.join(sorted(training)) or 'none'}")
    if REPORT not in known:
        raise NotReady(f"dvc.yaml has no stage {REPORT}, so nobody knows when reports/audit.json was made; restore dvc.yaml")
    measured = [REPORT, *stages, f"converse@{BASE}", f"benchmark@{BASE}", *({BASE, "personas"} & known)]
    stale = sorted(set(dvc.changed(root, measured)) & set(measured))
    if stale:
        raise NotReady(f"out of date: {', '.join(stale)}; run `rlver run` first, so that what is promoted is what was measured")
    if not {"transcripts", f"transcripts/{variant}.jsonl"} & set(plan[REPORT].reads):
        raise NotReady(
            f"the stage {REPORT} of dvc.yaml does not read transcripts/{variant}.jsonl, so its audit may be old: add it to its deps"
        )
    settings = load_settings(root / "params.yaml", variant)
    evidence = evidence_of(root, variant)
    facts = facts_of(root, variant, dvc.locked(root)[training[variant]], root / "metrics" / variant / "sentient.json", settings)
    revision = records.revision(root)
    tags = {"git_commit": revision.commit, "git_dirty": str(revision.dirty).lower()} if revision else {}
    return Candidate(
        variant=variant,
        md5=facts.md5,
        evidence=evidence,
        texts=_texts(root, evidence),
        facts=facts,
        settings=settings,
        tags=tags,
        personas=known_personas(None, root),
    )


def facts_of(root: Path, variant: str, trained: LockedStage, sentient: Path, settings: Settings) -> Facts:
    """What a card says of a policy that this stage trained and that scored what is in `sentient`."""
    revision = records.revision(root)
    return Facts(
        variant=variant,
        base=_base_named(root, settings),
        own_base=settings.base.kind == TINY,
        parameters=records.effective_parameters(trained.parameters),
        data={path: md5 for path, md5 in trained.dependencies.items() if records.kind(path) == "data"},
        sentient=_read_json(sentient),
        md5=_model(trained.outputs),
        commit=f"{revision.commit[:12]}{' with changes' if revision.dirty else ''}" if revision else "none",
    )


def _base_named(root: Path, settings: Settings) -> str:
    """The base as a card names it: of a folder or a file only that it is one."""
    if settings.base.kind == TINY:
        return "a tiny model trained from nothing by this project"
    named = str(settings.base.model)
    place = named.rpartition(":")[2]  # behind gguf:, say
    is_local = place.startswith((".", "~")) or Path(place).is_absolute() or (root / place).exists()
    return LOCAL_BASE if is_local else named


def evidence_of(root: Path, variant: str) -> PromotionEvidence:
    """What lies in the folder. BASE is the untrained policy: what must not be lost, and the champion's stand-in while there is none."""
    metrics, audits = root / "metrics" / variant, _read_json(root / AUDITS) or {}  # as the report made them
    general, honesty = read_general(metrics / "general.json"), _read_json(metrics / "honesty.json")
    md5 = _model(dvc.locked(root)[f"benchmark@{variant}"].dependencies)
    return PromotionEvidence(variant, md5, load_transcripts(_transcripts(root, variant)), general, audits.get(variant), honesty)


def _model(files: Mapping[str, str]) -> str:
    """The MD5 of the model folder among what a stage reads or writes."""
    return next(md5 for path, md5 in files.items() if records.kind(path) == "models")


def _texts(root: Path, known: PromotionEvidence) -> dict[str, str]:
    """The same as texts, by the names of EVIDENCE; what there is not is left out."""
    transcripts, *others = EVIDENCE
    found = zip(others, (known.general, known.audit, known.honesty), strict=True)
    texts = {name: json.dumps(one) for name, one in found if one is not None}
    return {transcripts: _transcripts(root, known.name).read_text(encoding="utf-8")} | texts


def _transcripts(root: Path, variant: str) -> Path:
    return root / "transcripts" / f"{variant}.jsonl"


def _read_json(path: Path) -> Any:
    return read_json(path, "run its stage again") if path.is_file() else None
