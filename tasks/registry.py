"""The registry of policies in MLflow: numbered versions, each with its model card and the evidence for it, and the alias `champion`.

A version's evidence (transcripts, general.json, audit.json) lies in the run that registered it, so that the next candidate can be compared with
a champion whose files are long gone from the folder.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.evaluation.promotion import Evidence
from components.evaluation.transcripts import load_transcripts
from components.files import read_json
from tasks.tracking.store import EXPERIMENT, make_database, readable

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities.model_registry import ModelVersion

MODEL = "rlver-policy"
CHAMPION = "champion"
BEFORE = "champion_before"  # tag of a version that became champion: the number of the one before it, "none" for the first
EVIDENCE = ("transcripts.jsonl", "general.json", "audit.json")
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


class Registry:
    """One MLflow registry. Every method raises TrackingUnavailable when it cannot be reached."""

    def __init__(self, uri: str) -> None:
        from mlflow import MlflowClient

        logging.getLogger("mlflow.store.db.utils").setLevel(logging.WARNING)
        with readable():
            make_database(uri)
            self._client: MlflowClient = MlflowClient(tracking_uri=uri, registry_uri=uri)

    def champion(self) -> Version | None:
        """Who has the alias; None while nobody does."""
        with readable():
            if not self._client.search_registered_models(f"name = '{MODEL}'", max_results=1):
                return None
            number = self._client.get_registered_model(MODEL).aliases.get(CHAMPION)
            return None if number is None else _version(self._client.get_model_version(MODEL, number))

    def version(self, number: str) -> Version:
        with readable():
            return _version(self._client.get_model_version(MODEL, number))

    def evidence(self, version: Version) -> Evidence:
        """What was known of a version when it was registered."""
        with readable(), tempfile.TemporaryDirectory() as folder:
            files = Path(self._client.download_artifacts(version.run, "evidence", folder))
            transcripts, general, audit = (files / name for name in EVIDENCE)
            return Evidence(version.variant, load_transcripts(transcripts), _json(general), _json(audit))

    def register(self, variant: str, md5: str, card: str, evidence: Mapping[str, str], tags: Mapping[str, str]) -> Version:
        """A new version of the logged model with this MD5, with its card and the texts of its evidence. Raises RegistryError if MLflow has no such model."""
        with readable():
            experiment = self._client.get_experiment_by_name(EXPERIMENT)
            found = self._client.search_logged_models([experiment.experiment_id], f"tags.md5 = '{md5}'") if experiment else []
            logged = [model for model in found if str(model.status) == "READY" and model.tags.get("log_models") == "full"]
            if experiment is None or not logged:
                raise RegistryError(
                    f"MLflow does not hold all of the model of {variant}: `rlver run` logs it, also when nothing is left to run, "
                    "if tracking.log_models is full"
                )
            if not self._client.search_registered_models(f"name = '{MODEL}'", max_results=1):
                self._client.create_registered_model(
                    MODEL, description="Empathetic dialogue policies; the alias `champion` is the one in use."
                )
            run = self._client.create_run(
                experiment.experiment_id, run_name=f"register {variant}", tags={"variant": variant, "stage": "register", **tags}
            ).info.run_id
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
            self._client.set_terminated(run)
            return _version(self._client.get_model_version(MODEL, made.version))

    def withdraw(self, version: Version, over: Version | None) -> None:
        """Take back a version that `register` made; should it have the alias already, `over` gets it back."""
        with readable():
            if over and str(self._client.get_registered_model(MODEL).aliases.get(CHAMPION)) == version.number:
                self._client.set_registered_model_alias(MODEL, CHAMPION, over.number)
            self._client.delete_model_version(MODEL, version.number)
            self._client.set_terminated(version.run, "FAILED")

    def crown(self, version: Version, over: Version | None) -> None:
        """Make a version the champion; it remembers `over`, who was."""
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
            previous = self.version(now.before)
            self._client.set_model_version_tag(MODEL, now.number, "rolled_back", "true")
            self._client.set_registered_model_alias(MODEL, CHAMPION, previous.number)
        return now, previous


def _version(found: ModelVersion) -> Version:
    before = found.tags.get(BEFORE)
    return Version(
        str(found.version), found.tags["variant"], found.tags["md5"], str(found.run_id), None if before in (None, "none") else before
    )


def _json(path: Path) -> Any:
    return read_json(path) if path.is_file() else None
