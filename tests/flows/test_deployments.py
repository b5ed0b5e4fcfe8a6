"""One scheduled and one event-driven deployment: described once, and shown working against a real local server."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from prefect_api import asked_with_key
from served import processes_with, rlver, wait_for

from rlver.components.domain.files import BadFile
from rlver.tasks.graph import dvc
from rlver.tasks.runtime import servers


@pytest.mark.long
def test_prefect_yaml_describes_schedules_an_event_and_jobs_on_demand(repository_root: Path) -> None:
    from rlver.flows.deployments import LANDED, PERSONAS, deployments

    served = {deployment.name: deployment for deployment in deployments(repository_root)}
    assert {name: [plan.schedule.cron for plan in deployment.schedules or ()] for name, deployment in served.items()} == {
        "nightly": ["0 3 * * *"],
        "on-new-personas": [],
        "weekly-sweep": ["0 1 * * 6"],
        "evaluate-a-model": [],
        "promote": [],
    }
    (trigger,) = served["on-new-personas"].triggers
    assert trigger.expect == {LANDED} and trigger.match.root == {"prefect.resource.id": PERSONAS}
    assert trigger.parameters == {"personas_md5": "{{ event.payload.md5 }}"}
    for deployment in served.values():
        fields = deployment._parameter_openapi_schema.properties
        assert {*deployment.parameters, *(set(trigger.parameters) if deployment.triggers else ())} <= set(fields)
        assert all(field.get("description") for field in fields.values()), f"{deployment.name}: a field of its form has no help"
        assert deployment.enforce_parameter_schema and deployment.tags == ["rlver"]


@pytest.mark.long
def test_a_schedule_is_served_as_it_stands_in_the_file(repository_root: Path) -> None:
    from rlver.flows.deployments import _deployment

    entry = {"name": "n", "entrypoint": "rlver.flows.deployed.reproduce", "paused": True}
    weekly = {"cron": "0 1 * * 6", "timezone": "UTC", "active": False, "parameters": {"jobs": 2}, "slug": "weekly"}
    served = _deployment(entry | {"schedules": [weekly, {"interval": 3600, "anchor_date": "2026-01-01T00:00:00+00:00"}]})
    first, second = served.schedules or ()
    assert served.paused and not first.active and (first.parameters, first.slug) == ({"jobs": 2}, "weekly")
    assert second.active and second.schedule.interval.total_seconds() == 3600 and second.schedule.anchor_date.year == 2026
    with pytest.raises(BadFile, match=r"deployment n: a schedule cannot be read: .*'crom'"):
        _deployment(entry | {"schedules": [{"crom": "0 1 * * 6"}]})


@pytest.mark.long
def test_a_server_has_the_deployments_of_one_folder(prefect_server: None, tmp_path: Path) -> None:
    from rlver.flows.deployments import claim

    ours, others = tmp_path / "ours", tmp_path / "others"
    for folder in (ours, others):
        folder.mkdir()
    claim(ours)
    moved = ours.rename(tmp_path / "moved")
    claim(moved)
    shutil.copytree(moved, tmp_path / "copy")
    with pytest.raises(servers.ServerFailed, match=r"moved.* has the same deployments .* a copy of it, so delete \.prefect/project here"):
        claim(tmp_path / "copy")
    with pytest.raises(
        servers.ServerFailed, match=r"has the deployments of another folder, .*moved.* `prefect variable delete rlver_project`"
    ):
        claim(others)


def test_a_deployment_of_another_flow_is_refused_by_name_and_an_empty_list_is_none() -> None:
    from rlver.flows.deployments import _deployment

    own = {"name": "mine", "tags": ["rlver"], "schedules": None, "triggers": None, "parameters": None}
    served = _deployment(own | {"entrypoint": "rlver.flows.deployed.sweep"})
    assert not served.schedules and not served.triggers and served.parameters == {}
    for entrypoint in ("my.flows.train", "my.flows.sweep", "rlver.flows.deployed.train", None):
        with pytest.raises(BadFile, match=f"deployment mine: {entrypoint} cannot be served .* reproduce, sweep, evaluate, promote;"):
            _deployment(own | {"entrypoint": entrypoint})


@pytest.mark.long
def test_the_forms_offer_what_there_is(repository_root: Path) -> None:
    from rlver.flows.deployments import deployments

    fields = {deployment.name: deployment._parameter_openapi_schema.properties for deployment in deployments(repository_root)}
    assert "grpo-think" in fields["promote"]["variant"]["enum"] and "base" not in fields["promote"]["variant"]["enum"]
    variants = fields["nightly"]["variants"]["anyOf"][0]["items"]["enum"]
    assert {"all", "grpo-think", "ppo-think-s7"} <= set(variants)
    assert {"train", "train@grpo-think"} <= set(fields["nightly"]["only"]["anyOf"][0]["items"]["enum"])
    assert fields["weekly-sweep"]["name"]["enum"] == ["learning-rate"]
    assert (fields["nightly"]["jobs"]["minimum"], fields["evaluate-a-model"]["repeats"]["maximum"]) == (1, 20)


@pytest.mark.slow
def test_the_schedule_plans_runs_and_landed_personas_start_one(
    toy: Path, tracking_uri: str, tmp_path: Path, repository_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "prefect"))
    (toy / "prefect.yaml").write_bytes((repository_root / "prefect.yaml").read_bytes())
    personas = toy / "new.jsonl"
    personas.write_text("{}\n")
    params = toy / "params.yaml"
    params.write_text(params.read_text().replace("imported_train: null", "imported_train: new.jsonl"))

    with servers.prefect(toy, servers.free_port(15280)) as server, asked_with_key(toy, server.url) as client:
        api = f"{server.url}/api"

        def runs(deployment: str, **wanted: Any) -> list[dict[str, Any]]:
            body = {"deployments": {"name": {"any_": [deployment]}}, **wanted}
            return list(client.post("/flow_runs/filter", json=body).raise_for_status().json())

        with rlver("serve-deployments", root=toy, PREFECT_API_URL=api):
            scheduled = wait_for(lambda: runs("nightly"), 90)
            assert {run["state_type"] for run in scheduled} == {"SCHEDULED"}
            assert all("T03:00:00" in run["expected_start_time"] for run in scheduled)

            emitted = subprocess.run(
                (sys.executable, "-m", "rlver.flows.cli", "personas", "landed", str(personas)),
                cwd=toy,
                env={**os.environ, "PYTHONPATH": str(repository_root), "PREFECT_API_URL": api},
                capture_output=True,
                text=True,
                check=True,
            )
            assert dvc.md5_of(personas) in emitted.stdout
            wait_for(lambda: runs("on-new-personas"), 60)
            ended = {"flow_runs": {"state": {"type": {"any_": ["COMPLETED", "FAILED", "CRASHED"]}}}}
            (run,) = wait_for(lambda: runs("on-new-personas", **ended), 180)
    assert run["parameters"]["personas_md5"] == dvc.md5_of(personas)
    assert run["state_type"] == "COMPLETED", run["state"]["message"]
    assert (toy / "ran.log").read_text().split() == ["personas", "train-a", "train-b", "report"]


@pytest.mark.slow
def test_ctrl_c_ends_the_running_stage_and_a_rerun_goes_on(toy: Path, tracking_uri: str, tmp_path: Path) -> None:
    (toy / "sleep-train-a").write_text("117.5")
    home = {"PREFECT_HOME": str(tmp_path / "prefect")}
    with rlver("run", root=toy, **home) as process:
        assert process.stdout is not None
        wait_for(lambda: (toy / "ran.log").is_file() and "train-a" in (toy / "ran.log").read_text(), 120)
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted: what was finished is kept" in said and "Traceback" not in said
    assert not processes_with(b"sleep\x00117.5")
    (toy / "sleep-train-a").unlink()
    done = subprocess.run(
        (sys.executable, "-m", "rlver.flows.cli", "run"),
        cwd=toy,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), **home},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "3 of 4 stages ran: train@a, train@b, report" in done.stdout
    assert "Where to look" in done.stdout


@pytest.mark.slow
def test_an_unchanged_graph_runs_nothing_again_and_ui_serves_what_ran(
    toy: Path, tracking_uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = {"PREFECT_HOME": str(tmp_path / "prefect")}
    values = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), **home}
    command = (sys.executable, "-m", "rlver.flows.cli", "run")
    subprocess.run(command, cwd=toy, env=values, capture_output=True, check=True)
    ran = (toy / "ran.log").read_text()
    subprocess.run(command, cwd=toy, env=values, capture_output=True, check=True)
    assert (toy / "ran.log").read_text() == ran

    with rlver("ui", "--mlflow-port", "15080", "--prefect-port", "15281", root=toy, **home) as process:
        assert process.stdout is not None
        urls, links = dict[str, str](), dict[str, str]()
        for line in process.stdout:
            if line.startswith(("MLflow", "Prefect")):
                urls[line.split()[0]] = line.split()[1]
            elif "http" in line:
                links[line.split()[0]] = line.split()[-1]
            if line.startswith("Ctrl-C"):
                break
        found = httpx.post(f"{urls['MLflow']}/api/2.0/mlflow/runs/search", json={"experiment_ids": ["1"]}, timeout=30).json()
        assert {run["info"]["run_name"].partition(" ")[0] for run in found["runs"]} == {
            "pipeline",
            "personas",
            "train@a",
            "train@b",
            "report",
        }
        assert httpx.post(f"{urls['Prefect']}/api/flow_runs/filter", json={}, timeout=30).status_code == 401
        monkeypatch.setenv("PREFECT_HOME", home["PREFECT_HOME"])
        with asked_with_key(toy, urls["Prefect"]) as client:
            runs = client.post("/flow_runs/filter", json={"sort": "START_TIME_DESC"}).json()
        assert len(runs) == 2 and all(run["tags"] == ["rlver"] for run in runs)
        assert links["last"] == f"{urls['Prefect']}/v2/runs/flow-run/{runs[0]['id']}"
        assert links["comparison"].startswith(f"{urls['MLflow']}/#/") and "groupBy=session" in links["dialogues"]
    assert not servers.answers(f"{urls['MLflow']}/health")


@pytest.mark.slow
def test_a_cancelled_run_leaves_no_process_and_a_silent_one_will_be_called_crashed(
    toy: Path, tracking_uri: str, tmp_path: Path, repository_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "prefect"))
    (toy / "prefect.yaml").write_bytes((repository_root / "prefect.yaml").read_bytes())
    (toy / "params" / "sweeps").mkdir()
    (toy / "params" / "sweeps" / "learning-rate.yaml").write_text("params.yaml:train.steps: [2]\n")
    (toy / "sleep-personas").write_text("119.5")

    def asleep() -> list[int]:
        return processes_with(b"sleep\x00119.5")

    with servers.prefect(toy, servers.free_port(15380)) as server, asked_with_key(toy, server.url) as client:
        api = f"{server.url}/api"
        with rlver("serve-deployments", root=toy, PREFECT_API_URL=api):
            body = {"deployments": {"name": {"any_": ["nightly"]}}}
            (deployment,) = wait_for(lambda: client.post("/deployments/filter", json=body).json(), 120)

            def start(**parameters: Any) -> httpx.Response:
                run = {"parameters": parameters, "state": {"type": "SCHEDULED"}}
                return client.post(f"/deployments/{deployment['id']}/create_flow_run", json=run)

            def state(run: str) -> str:
                return str(client.get(f"/flow_runs/{run}").json()["state_type"])

            refused = start(variants=["no-such-variant"])
            assert refused.status_code in (409, 422) and "no-such-variant" in refused.text

            run = start().raise_for_status().json()["id"]
            wait_for(asleep, 120)
            client.post(f"/flow_runs/{run}/set_state", json={"state": {"type": "CANCELLING"}}).raise_for_status()
            wait_for(lambda: state(run) == "CANCELLED", 90)
            assert not asleep()

            found = client.post("/automations/filter", json={}).json()
            (watching,) = (one for one in found if one["name"] == "rlver: runs without a heartbeat have crashed")
            assert watching["enabled"] and watching["trigger"]["after"] == ["prefect.flow-run.heartbeat"]
            assert (watching["trigger"]["posture"], watching["trigger"]["within"]) == ("Proactive", 300)
            assert watching["trigger"]["match_related"] == {"prefect.resource.role": "tag", "prefect.resource.id": "prefect.tag.rlver"}
            assert [(action["type"], action["state"]) for action in watching["actions"]] == [("change-flow-run-state", "CRASHED")]
