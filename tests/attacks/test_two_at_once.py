"""Two processes that do the same at the same time, and a clock that is put right meanwhile: the result is that of one."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
from mlflow import MlflowClient

from rlver.tasks.graph import dvc

pytestmark = pytest.mark.slow
REPOSITORY = Path(__file__).parents[2]
OPEN = """
import pathlib, sys
from rlver.tasks.tracking.store import open_store
print(open_store(pathlib.Path.cwd(), sys.argv[1]).experiment)
"""
CLOCK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
static long back(void) { const char *now = getenv("CLOCK_BACK"); return now && access(now, F_OK) == 0 ? 7200 : 0; }
int clock_gettime(clockid_t id, struct timespec *t) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int status = real(id, t);
    if (!status && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) t->tv_sec -= back();
    return status;
}
int gettimeofday(struct timeval *t, void *zone) {
    struct timespec s;
    clock_gettime(CLOCK_REALTIME, &s);
    t->tv_sec = s.tv_sec, t->tv_usec = s.tv_nsec / 1000;
    return 0;
}
time_t time(time_t *t) { struct timespec s; clock_gettime(CLOCK_REALTIME, &s); if (t) *t = s.tv_sec; return s.tv_sec; }
"""


def surroundings(folder: Path, **own: str) -> dict[str, str]:
    away = {"PREFECT_HOME": str(folder / ".prefect"), "MLFLOW_TRACKING_URI": f"sqlite:///{folder / 'mlflow.db'}"}
    return {**os.environ, "PYTHONPATH": str(REPOSITORY), "DVC_SITE_CACHE_DIR": str(folder / ".site"), **away, **own}


def start(folder: Path, *command: str, **own: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        (sys.executable, *command), cwd=folder, env=surroundings(folder, **own), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def tables(database: Path) -> set[str]:
    """Those of a database that somebody may be making."""
    if not database.exists():
        return set()
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        try:
            return {str(name) for (name,) in connection.execute("select name from sqlite_master where type = 'table'")}
        except sqlite3.OperationalError:
            return set()


def test_two_that_make_mlflows_database_at_once_make_one_that_works(tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    both = [start(tmp_path, "-c", OPEN, uri) for _ in range(2)]
    said = [one.communicate(timeout=300)[0] for one in both]
    assert [one.returncode for one in both] == [0, 0] and said[0].split()[-1] == said[1].split()[-1], said
    assert [path.name for path in tmp_path.iterdir()] == ["mlflow.db"]


def test_mlflows_database_is_whole_or_not_there_when_its_maker_is_killed(tmp_path: Path) -> None:
    database = tmp_path / "mlflow.db"
    maker = start(tmp_path, "-c", OPEN, f"sqlite:///{database}")
    end = time.monotonic() + 300
    while maker.poll() is None and time.monotonic() < end:
        if any(name.startswith("_alembic_tmp") for name in tables(database)) or list(tmp_path.glob(".mlflow.db.*/mlflow.db")):
            break
        time.sleep(0.002)
    maker.kill()
    maker.wait()
    again = start(tmp_path, "-c", OPEN, f"sqlite:///{database}")
    assert again.communicate(timeout=300)[0].split()[-1] == "1" and again.returncode == 0


def runs(folder: Path) -> list[tuple[str, str]]:
    client = MlflowClient(tracking_uri=f"sqlite:///{folder / 'mlflow.db'}")
    found = client.get_experiment_by_name("rlver")
    assert found is not None
    return sorted((str(run.info.run_name).partition(" ")[0], run.info.status) for run in client.search_runs([found.experiment_id]))


ALL = [(name, "FINISHED") for name in ("personas", "pipeline", "report", "train@a", "train@b")]


def test_two_runs_at_once_run_every_stage_once_and_record_it(toy: Path) -> None:
    for stage in ("personas", "train-a", "train-b", "report"):
        (toy / f"sleep-{stage}").write_text("1")
    both = [start(toy, "-m", "rlver.flows.cli", "run") for _ in range(2)]
    said = [one.communicate(timeout=550)[0] for one in both]
    assert [one.returncode for one in both] == [0, 0], "\n".join(said)
    assert sorted((toy / "ran.log").read_text().split()) == ["personas", "report", "train-a", "train-b"] and dvc.changed(toy) == {}
    assert set(runs(toy)) == set(ALL)


def test_a_clock_that_goes_back_in_the_middle_of_a_run_changes_nothing(toy: Path) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("needs a C compiler, for a clock of its own")
    source, library = toy.parent / "clock.c", toy.parent / "clock.so"
    source.write_text(CLOCK)
    subprocess.run((compiler, "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"), check=True)
    run = start(toy, "-m", "rlver.flows.cli", "run", LD_PRELOAD=str(library), CLOCK_BACK=str(toy / "ran.log"))
    said = run.communicate(timeout=550)[0]
    assert run.returncode == 0 and "4 of 4 stages ran: personas, train@a, train@b, report" in said, said
    hours = {int(line[:2]) for line in said.splitlines() if line[2:3] == ":" and " | " in line}
    assert len(hours) >= 2, "the clock did go back"
    assert dvc.changed(toy) == {} and runs(toy) == ALL


def test_outputs_that_are_links_into_dvcs_cache_are_written_verified_and_mended(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`cache.type: symlink`, as people with large models and a small disk have it."""
    from rlver.components.domain.files import write_text_atomically
    from rlver.tasks.graph import lock as integrity

    monkeypatch.setenv("DVC_SITE_CACHE_DIR", str(toy / ".site"))
    script = (toy / "stage.sh").read_text()
    (toy / "stage.sh").write_text(script.replace('> "$2";', '> "$2"; echo "$1" >> "$2";'))  # no two outputs are equal
    subprocess.run((sys.executable, "-m", "dvc", "config", "cache.type", "symlink"), cwd=toy, check=True)
    for stage in ("personas", "train@a", "train@b", "report"):
        dvc.reproduce(toy, stage, lambda _: None)
    output = toy / "models" / "a"
    cached = output.resolve()
    before = cached.read_bytes()
    assert output.is_symlink() and dvc.changed(toy) == {} and integrity.mend(toy, dvc.locked(toy)["train@a"].outputs) == []
    write_text_atomically(output, "mine")
    assert cached.read_bytes() == before and output.read_text() == "mine" and set(dvc.changed(toy)) == {"train@a", "report"}
    output.unlink()
    dvc.reproduce(toy, "train@a", lambda _: None)
    assert output.is_symlink() and dvc.changed(toy) == {}
    cached.chmod(0o644)
    cached.write_bytes(b"damaged")
    cached.chmod(0o444)
    assert integrity.mend(toy, dvc.locked(toy)["train@a"].outputs) == ["models/a"] and not cached.exists()
    dvc.reproduce(toy, "train@a", lambda _: None)
    assert output.read_bytes() == before and dvc.changed(toy) == {}
