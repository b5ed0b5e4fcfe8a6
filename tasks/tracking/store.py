"""The experiment in MLflow, and its errors as one line."""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import unquote, urlsplit

from rlver.tasks.runtime import environment
from rlver.tasks.runtime.environment import shown

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

T = TypeVar("T")
ABOUT_ONE_RUN = ("INVALID_PARAMETER_VALUE", "RESOURCE_DOES_NOT_EXIST")  # of MLflow's error codes


class TrackingUnavailable(RuntimeError):
    """The tracker cannot be reached or refuses what it was given; the message is one line."""


class RunRefused(TrackingUnavailable):
    """The tracker is there and refuses something about one run."""


@dataclass(frozen=True)
class Store:
    """A client and the experiment it writes to."""

    client: MlflowClient
    experiment: str  # its id
    uri: str

    def runs(self, *conditions: str, most: int = 100) -> list[Run]:
        """The runs that meet all conditions, newest first."""
        return list(self.client.search_runs([self.experiment], " and ".join(conditions), max_results=most))

    def has(self, run: str) -> bool:
        """Whether this run is there and nobody deleted it, nor its experiment."""
        from mlflow.exceptions import MlflowException

        try:
            return bool(self.client.get_run(run).info.lifecycle_stage == "active")
        except MlflowException as error:
            if error.error_code != "RESOURCE_DOES_NOT_EXIST":
                raise
            return False


def open_store(root: Path, uri: str) -> Store:
    """The experiment of the environment at `uri`, made if it is not there; of a local database, files lie in the project's mlartifacts/."""
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException

    logging.getLogger("mlflow.store.db.utils").setLevel(logging.WARNING)
    logging.getLogger("urllib3.connectionpool").setLevel(logging.ERROR)  # every retry is a warning to it
    make_database(uri)
    client = MlflowClient(tracking_uri=uri)
    experiment = environment.experiment()
    found = client.get_experiment_by_name(experiment)
    own = (root / "mlartifacts").resolve()
    place = own.as_uri() if uri.startswith("sqlite:") else None
    if found is None:
        try:
            return Store(client, client.create_experiment(experiment, artifact_location=place), uri)
        except MlflowException:
            found = client.get_experiment_by_name(experiment)
            if found is None:  # it failed for another reason than that somebody made it meanwhile
                raise
    if found.lifecycle_stage != "active":
        raise TrackingUnavailable(
            f"the experiment {experiment} was deleted in MLflow: restore it (`mlflow experiments restore -x {found.experiment_id}`), "
            "or set MLFLOW_EXPERIMENT_NAME to another name"
        )
    if (
        place
        and not _lies_in(own, found.artifact_location)
        and Path(uri.removeprefix("sqlite:///")).resolve().is_relative_to(root.resolve())
    ):
        raise TrackingUnavailable(
            f"{uri.removeprefix('sqlite:///')} would have MLflow's files written to {shown(str(found.artifact_location))}, not here: was the project moved "
            "or copied? Move mlflow.db away; `rlver mlflow sync` logs what is here again"
        )
    return Store(client, found.experiment_id, uri)


def _lies_in(folder: Path, location: str) -> bool:
    """Whether files at `location`, an address or a path, come into this resolved folder; MLflow's server makes one for each experiment."""
    address = urlsplit(location)
    place = Path(unquote(address.path)) if address.scheme == "file" else Path(location)
    return address.scheme in ("file", "") and place.resolve().is_relative_to(folder)


def make_database(uri: str) -> None:
    """Where `uri` is a local database that is not there yet, make it beside its place and put it there whole.

    MLflow makes its tables in hundreds of steps. Two processes that take them at once, or one that is killed meanwhile, would leave a file
    that nobody can open.
    """
    from mlflow import MlflowClient

    path = Path(uri.removeprefix("sqlite:///"))
    if not uri.startswith("sqlite:///") or path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as folder:
        made = Path(folder) / path.name
        MlflowClient(tracking_uri=f"sqlite:///{made}").search_experiments(max_results=1)
        with suppress(FileExistsError):  # of two that make it at once the first one's stays
            os.link(made, path)


@contextmanager
def readable() -> Iterator[None]:
    """Turns MLflow's errors into TrackingUnavailable with a one-line message; into RunRefused where they are about one run."""
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except (MlflowException, SQLAlchemyError, OSError) as error:
        first = next(iter(str(error).strip().splitlines()), type(error).__name__)
        kind = RunRefused if getattr(error, "error_code", None) in ABOUT_ONE_RUN else TrackingUnavailable
        raise kind(f"MLflow: {shown(first)}") from error


@contextmanager
def ended(client: MlflowClient, run: str) -> Iterator[None]:
    """The run ends with this block; where that breaks off, as FAILED, as far as MLflow still answers."""
    try:
        yield
    except BaseException:
        with suppress(TrackingUnavailable), readable():
            client.set_terminated(run, "FAILED")
        raise
    client.set_terminated(run)


def chunks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """`items` in lists of at most `size`, because one call takes no more."""
    remaining = iter(items)
    while part := list(islice(remaining, size)):
        yield part
