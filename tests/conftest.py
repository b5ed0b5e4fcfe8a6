"""The environment of every test, set before anything is imported: no network, no telemetry, one thread, folders of its own."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

_TESTS = Path(__file__).parent
_LONG = (
    "flows/", "tasks/graph/", "tasks/studies/distil/", "tasks/stages/", "test_docs.py", "components/training/", "components/users/scripted/test_gaming.py",
    "tasks/studies/audit/", "attacks/",
)  # fmt: skip
_MEMORY, _ROOM = Path("/dev/shm"), 6 << 30  # bytes; `rlver doctor` asks for 5 GB


def _has_room(folder: Path) -> bool:
    """Whether files can be kept there, and programs be run."""
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        return False
    system = os.statvfs(folder)
    return not system.f_flag & os.ST_NOEXEC and system.f_bavail * system.f_frsize >= _ROOM


# MLflow, DVC and Prefect wait for the disk a dozen times for each thing they note: in memory that takes no time.
if "TMPDIR" not in os.environ and _has_room(_MEMORY):
    os.environ["TMPDIR"] = tempfile.tempdir = str(_MEMORY)  # the second for ourselves: pytest has asked before
_HOME = tempfile.mkdtemp(prefix="rlver-tests-")
for _name, _value in {
    "HF_HUB_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "OMP_NUM_THREADS": "1",
    "TRL_EXPERIMENTAL_SILENCE": "1",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "DVC_NO_ANALYTICS": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "180",
}.items():
    os.environ.setdefault(_name, _value)
# Every process of pytest-xdist has its own, whatever it inherits.
os.environ["PREFECT_HOME"] = f"{_HOME}/prefect"
os.environ["MLFLOW_TRACKING_URI"] = f"sqlite:///{_HOME}/mlflow.db"
for _name in ["PREFECT_API_URL", *(name for name in os.environ if name.startswith("RLVER_"))]:
    os.environ.pop(_name, None)

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it, and so would every child
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda *_: None)  # under nohup: we go on ignoring it, and what we start does not

from collections.abc import Callable, Iterator  # noqa: E402
from typing import TYPE_CHECKING, Any  # noqa: E402

import hypothesis  # noqa: E402
import pytest  # noqa: E402

if TYPE_CHECKING:
    from rlver.components.domain.transcript import Dialogue
    from rlver.tasks.graph.dvc import Stage


hypothesis.settings.register_profile("beside_others", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("beside_others")


def _counting(config: pytest.Config) -> Any:
    """What counts lines in this process, None where nothing does."""
    plugin = config.pluginmanager.get_plugin("_cov")
    return plugin and plugin.cov_controller


def pytest_configure(config: pytest.Config) -> None:
    """pytest-cov starts a second counter in each process of pytest-xdist, on top of one for `-n`. `no_cover` would stop the upper one only."""
    counting = _counting(config)
    if hasattr(config, "workerinput") and type(counting).__name__ == "DistMaster":
        counting.cov.stop()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    yield from _not_counted(item)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    yield from _not_counted(item)


def _not_counted(item: pytest.Item) -> Iterator[None]:
    """pytest-cov itself pauses for the test alone, and not for what it is made of."""
    counting = _counting(item.config) if item.get_closest_marker("no_cover") else None
    if counting:
        counting.pause()
    try:
        yield
    finally:
        if counting:
            counting.resume()


def pytest_unconfigure() -> None:
    shutil.rmtree(_HOME, ignore_errors=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Counting lines doubles the time of plain Python: a room's lines are counted by the tests beside it, and not by those of other layers
    that come through it again. Simulations by the hundred say `no_cover` themselves. What takes long comes first, or one process ends alone."""
    items.sort(key=lambda item: not item.path.relative_to(_TESTS).as_posix().startswith(_LONG))
    for item in items:
        place = item.path.relative_to(_TESTS).parts
        if place[:1] != ("components",) and place[:2] != ("tasks", "studies"):
            item.add_marker("no_cover")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Each process takes whole files, and one of them all of flows/, one all of distil/, one all of graph/: what those make once takes longest."""
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            together = ("tests/flows/", "tests/tasks/studies/distil/", "tests/tasks/graph/")
            return next((folder for folder in together if file.startswith(folder)), file)

    config.option.loadscopereorder = False  # else files of many tests come first
    return ByFile(config, log)


@pytest.fixture(scope="module", autouse=True)
def _what_is_there_is_not_looked_through_again() -> None:
    """Each training collects garbage at its end, and the modules of torch, Prefect and MLflow are a million objects: that took half of its time."""
    gc.freeze()


@pytest.fixture(autouse=True)
def _nothing_of_a_dotenv_stays() -> Iterator[None]:
    """A command that runs in the checkout takes over what its .env sets, and keys of servers; the next test is not to know of it."""
    before = set(os.environ)
    yield
    for name in [name for name in os.environ if (name.startswith("RLVER_") or name.endswith("AUTH_STRING")) and name not in before]:
        del os.environ[name]


@pytest.fixture(scope="session")
def repository_root() -> Path:
    return Path(__file__).parents[1]


@pytest.fixture(scope="session")
def plan(repository_root: Path) -> list[Stage]:
    """All stages that the checkout offers, for those who only read: a second of work."""
    from rlver.tasks.graph import dvc

    return dvc.plan(repository_root, all_pipelines=True)


@pytest.fixture(scope="session")
def _toy_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small DVC project of shell stages; each run of a stage adds a line to ran.log."""
    root = tmp_path_factory.mktemp("toy")
    (root / "params").mkdir()
    (root / "params" / "a.yaml").write_text("train:\n  steps: 3\n")
    (root / "params" / "b.yaml").write_text("{}\n")
    (root / "params.yaml").write_text("seed: 7\npersonas: {train: 3, imported_train: null}\ntrain: {steps: 2}\n")
    (root / "stage.sh").write_text(
        'echo "$1" >> ran.log\n'
        'if [ -e "fail-$1" ]; then echo "error: bad luck" >&2; code=$(cat "fail-$1"); [ -e "once-$1" ] && rm "fail-$1"; exit "$code"; fi\n'
        'if [ -e "sleep-$1" ]; then sleep "$(cat "sleep-$1")"; fi\n'
        'mkdir -p "$(dirname "$2")"; cat params.yaml params/*.yaml > "$2"; echo "$1 says hello"\n'
    )
    (root / "dvc.yaml").write_text(
        "stages:\n"
        "  personas:\n    cmd: sh stage.sh personas data/personas.txt\n    params: [seed, personas]\n    outs: [data/personas.txt]\n"
        "  train:\n    matrix:\n      variant: [a, b]\n    cmd: sh stage.sh train-${item.variant} models/${item.variant}\n"
        "    deps: [data/personas.txt]\n    params:\n      - train\n      - params/${item.variant}.yaml:\n"
        "    outs:\n      - models/${item.variant}\n"
        "  report:\n    cmd: sh stage.sh report reports/index.html\n    deps: [models/a, models/b]\n    outs: [reports/index.html]\n"
    )
    (root / ".gitignore").write_text("/data\n/models\n/reports\n/ran.log\n")
    for command in (
        "git init -q .",
        "dvc init -q",
        "dvc config core.analytics false",
        "git add -A",
        "git -c user.name=T -c user.email=t@example.org commit -qm start",
    ):
        subprocess.run(command.split(), cwd=root, check=True, env={**os.environ, "PATH": _path()})
    return root


@pytest.fixture
def toy(_toy_template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A toy project of its own, and the current directory."""
    root = tmp_path / "project"
    shutil.copytree(_toy_template, root)
    monkeypatch.chdir(root)
    monkeypatch.setenv("PATH", _path())
    return root


@pytest.fixture(scope="session")
def _tracking_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty MLflow database: making one takes seconds, copying none."""
    from mlflow import MlflowClient

    path = tmp_path_factory.mktemp("mlflow") / "mlflow.db"
    MlflowClient(tracking_uri=f"sqlite:///{path}").search_experiments()
    return path


@pytest.fixture
def tracking_uri(_tracking_template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of an MLflow store of its own, set in the environment too."""
    path = tmp_path / "mlflow.db"
    shutil.copy(_tracking_template, path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{path}")
    return f"sqlite:///{path}"


@pytest.fixture
def dialogue() -> Callable[..., Dialogue]:
    """Makes a dialogue whose emotions follow from the changes that it is given."""
    from hand_made import make_dialogue

    return make_dialogue


@pytest.fixture
def failed() -> Callable[..., Dialogue]:
    from hand_made import make_failed

    return make_failed


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An untrained Qwen2 of one layer with a byte-level tokenizer, saved as Hugging Face does."""
    from hand_made import save_tiny_model

    return save_tiny_model(tmp_path_factory.mktemp("models") / "tiny", seed=0)


def _path() -> str:
    import sys

    return os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)))
