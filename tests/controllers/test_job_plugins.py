"""Job plugins, table by table: the exact names and values they inject (volcano-controllers Part B)."""

from __future__ import annotations

import base64
import copy
import json
import shutil
import subprocess
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from strato.api import catalog
from strato.api.core import Pod, Secret, Service
from strato.api.crds import jobrules
from strato.api.volcano.batch import Job
from strato.controllers.job.plugins.base import PluginRefusal
from strato.controllers.job.plugins.pytorch import waiting_script
from strato.controllers.job.plugins.registry import PLUGINS, JobPlugins
from strato.controllers.job.plugins.ssh import SshPlugin, client_config
from strato.controllers.job.podbuilder import PodBuilder, templates_of
from strato.errors import NotFound
from tests.controllers.world import World, play, task, vcjob

LAUNCHER_AND_WORKERS = (task("master", 1), task("worker", 2))


def shaped(plugins: dict[str, list[str]], *tasks: dict[str, Any], pod: tuple[str, int]) -> dict[str, Any]:
    """The body of one pod of a job called j."""
    body = vcjob("j", *tasks, plugins=plugins)
    made = msgspec.convert(body, Job)
    name, index = pod
    position = next(i for i, each in enumerate(made.spec.tasks) if each.name == name)
    builder = PodBuilder(
        made,
        made.spec.tasks[position],
        templates_of(copy.deepcopy(body))[position],
        group="j-group",
        plugins=JobPlugins(made.spec.plugins).active,
        random=Random(1),
    )
    return builder.pod(index, 0, 0)


def environment(pod: dict[str, Any], member: str = "containers") -> dict[str, str]:
    return {each["name"]: each.get("value", "") for each in pod["spec"][member][0].get("env", ())}


def ports(pod: dict[str, Any]) -> list[tuple[str, int]]:
    return [(port.get("name", ""), port["containerPort"]) for port in pod["spec"]["containers"][0].get("ports", ())]


def with_init(made: dict[str, Any]) -> dict[str, Any]:
    spec = made["template"]["spec"]
    spec["initContainers"] = [{"name": "before", "image": "x"}]
    return made


def with_spec(made: dict[str, Any], **members: Any) -> dict[str, Any]:
    made["template"]["spec"].update(members)
    return made


def with_container(made: dict[str, Any], **members: Any) -> dict[str, Any]:
    made["template"]["spec"]["containers"][0].update(members)
    return made


def test_admission_and_controller_know_the_same_plugins() -> None:
    assert set(PLUGINS) == set(jobrules.PLUGINS)


TF_TASKS = (task("ps", 1), task("worker", 2), task("extra", 1))
TF_CLUSTER = {"ps": ["j-ps-0.j:2222"], "worker": ["j-worker-0.j:2222", "j-worker-1.j:2222"]}


@pytest.mark.parametrize(
    ("arguments", "tasks", "pod", "want"),
    [
        pytest.param(
            [],
            TF_TASKS,
            ("worker", 1),
            {"cluster": TF_CLUSTER, "task": {"type": "worker", "index": 1}},
            id="roles without a task are left out",
        ),
        pytest.param(
            [],
            TF_TASKS,
            ("extra", 0),
            {"cluster": TF_CLUSTER, "task": {"type": "extra", "index": 0}},
            id="a task without a role keeps its name",
        ),
        pytest.param(
            ["--chief=boss", "--port", "3000"],
            (task("boss", 1), task("evaluator", 1)),
            ("boss", 0),
            {
                "cluster": {"chief": ["j-boss-0.j:3000"], "evaluator": ["j-evaluator-0.j:3000"]},
                "task": {"type": "chief", "index": 0},
            },
            id="flags name tasks and port",
        ),
        pytest.param(
            [],
            (with_spec(task("ps", 1), hostname="fixed", subdomain="sub"), task("worker", 1)),
            ("worker", 0),
            {
                "cluster": {"ps": ["fixed.sub:2222"], "worker": ["j-worker-0.j:2222"]},
                "task": {"type": "worker", "index": 0},
            },
            id="templates may fix host and subdomain",
        ),
        pytest.param([], (task("worker", 1),), ("worker", 0), None, id="a single pod is not distributed"),
    ],
)
def test_tensorflow(
    arguments: list[str], tasks: tuple[dict[str, Any], ...], pod: tuple[str, int], want: dict[str, Any] | None
) -> None:
    found = environment(shaped({"tensorflow": arguments}, *tasks, pod=pod)).get("TF_CONFIG")
    assert (None if found is None else json.loads(found)) == want


@pytest.mark.parametrize(
    ("arguments", "pod", "want_hosts", "want_ports"),
    [
        pytest.param([], ("master", 0), "j-worker-0.j,j-worker-1.j", [("mpijob-port", 22)], id="master"),
        pytest.param([], ("worker", 1), None, [("mpijob-port", 22)], id="worker"),
        pytest.param(["--port=2022"], ("worker", 0), None, [("mpijob-port", 2022)], id="another port"),
        pytest.param(["--worker=none"], ("master", 0), None, [], id="a master without workers is left alone"),
    ],
)
def test_mpi(arguments: list[str], pod: tuple[str, int], want_hosts: str | None, want_ports: list[Any]) -> None:
    tasks = (with_init(task("master", 1)), with_init(task("worker", 2)))
    made = shaped({"mpi": arguments}, *tasks, pod=pod)
    assert environment(made).get("MPI_HOST") == want_hosts
    assert environment(made, "initContainers").get("MPI_HOST") == want_hosts
    assert ports(made) == want_ports


def test_a_declared_port_is_not_declared_again() -> None:
    worker = with_container(task("worker", 1), ports=[{"name": "mine", "containerPort": 22}])
    assert ports(shaped({"mpi": []}, task("master", 1), worker, pod=("worker", 0))) == [("mine", 22)]


@pytest.mark.parametrize(
    ("pod", "rank"),
    [
        pytest.param(("master", 0), "0", id="the master is 0"),
        pytest.param(("worker", 0), "1", id="workers follow"),
        pytest.param(("worker", 1), "2", id="by index"),
        pytest.param(("other", 0), None, id="others have no rank"),
    ],
)
def test_pytorch(pod: tuple[str, int], rank: str | None) -> None:
    made = shaped({"pytorch": []}, *LAUNCHER_AND_WORKERS, task("other", 1), pod=pod)
    want = {"MASTER_ADDR": "j-master-0.j", "MASTER_PORT": "23456", "WORLD_SIZE": "3"}
    assert environment(made) == want | ({} if rank is None else {"RANK": rank})
    assert ports(made) == [("pytorchjob-port", 23456)]
    assert "initContainers" not in made["spec"]


def test_pytorch_without_its_master_changes_nothing() -> None:
    made = shaped({"pytorch": ["--master=boss"]}, *LAUNCHER_AND_WORKERS, pod=("worker", 0))
    assert (environment(made), ports(made)) == ({}, [])


@pytest.mark.parametrize(("pod", "waits"), [(("master", 0), False), (("worker", 0), True)])
def test_pytorch_workers_may_wait_for_their_master(pod: tuple[str, int], waits: bool) -> None:
    arguments = ["--wait-master-enabled", "--wait-master-image=mine", "--wait-master-timeout=7", "--port=99"]
    made = shaped({"pytorch": arguments}, *LAUNCHER_AND_WORKERS, pod=pod)
    waiters = made["spec"].get("initContainers", [])
    assert [(each["name"], each["image"], each["command"][:2]) for each in waiters] == (
        [("wait-for-master", "mine", ["sh", "-c"])] if waits else []
    )


def test_the_wait_for_the_master_ends_with_1() -> None:
    script = waiting_script("127.0.0.1", 1, 0)  # nothing of ours listens below 1024
    assert (
        subprocess.run([shutil.which("bash") or "sh", "-c", script], capture_output=True, check=False).returncode == 1
    )


HEAD_COMMAND = (
    "ray start --head --block --dashboard-host=0.0.0.0 --port=6379 --dashboard-port=8265 --ray-client-server-port=10001"
)


@pytest.mark.parametrize(
    ("pod", "container", "command", "want_ports"),
    [
        pytest.param(
            ("head", 0),
            "head",
            HEAD_COMMAND,
            [("gcs", 6379), ("dashboard", 8265), ("client-server", 10001)],
            id="head",
        ),
        pytest.param(("worker", 1), "worker", "ray start --block --address=j-head-0.j:6379", [], id="worker"),
        pytest.param(("worker", 0), "sidecar", None, [], id="another container is left alone"),
    ],
)
def test_ray(pod: tuple[str, int], container: str, command: str | None, want_ports: list[Any]) -> None:
    tasks = tuple(
        with_container(task(name, replicas), name=container if name == pod[0] else "c")
        for name, replicas in (("head", 1), ("worker", 2))
    )
    before = tasks[0 if pod[0] == "head" else 1]["template"]["spec"]["containers"][0].get("command")
    made = shaped({"ray": []}, *tasks, pod=pod)
    assert made["spec"]["containers"][0].get("command") == (["sh", "-c", command] if command else before)
    assert ports(made) == want_ports


def test_ray_without_its_head_makes_no_pods() -> None:
    with pytest.raises(PluginRefusal, match="no task 'head'"):
        shaped({"ray": []}, task("worker", 1), pod=("worker", 0))


@pytest.mark.parametrize(
    ("plugins", "tasks", "pod", "rank"),
    [
        pytest.param({}, LAUNCHER_AND_WORKERS, ("master", 0), "0", id="master by index"),
        pytest.param({}, LAUNCHER_AND_WORKERS, ("worker", 1), "2", id="worker after the masters"),
        pytest.param({}, (task("other", 1),), ("other", 0), None, id="others are untouched"),
        pytest.param(
            {},
            (with_container(task("worker", 1), env=[{"name": "RANK", "value": "9"}]),),
            ("worker", 0),
            "9",
            id="a declared rank wins",
        ),
        pytest.param({"pytorch": []}, LAUNCHER_AND_WORKERS, ("worker", 1), "2", id="the rank that pytorch gives"),
    ],
)
def test_hcclrank(
    plugins: dict[str, list[str]], tasks: tuple[dict[str, Any], ...], pod: tuple[str, int], rank: str | None
) -> None:
    made = shaped({"hcclrank": [], **plugins}, *tasks, pod=pod)
    assert made["metadata"]["annotations"].get("hccl/rankIndex") == rank


def test_hcclrank_leaves_what_the_template_says() -> None:
    worker = task("worker", 1)
    worker["template"].setdefault("metadata", {}).setdefault("annotations", {})["hccl/rankIndex"] = "5"
    made = shaped({"hcclrank": []}, worker, pod=("worker", 0))
    assert made["metadata"]["annotations"]["hccl/rankIndex"] == "5"


@pytest.mark.parametrize(
    ("arguments", "path", "mode"),
    [([], "/root/.ssh", 0o600), (["--ssh-key-file-path=/home/me/.ssh"], "/home/me/.ssh", 0o644)],
)
def test_ssh_mounts_its_secret_everywhere(arguments: list[str], path: str, mode: int) -> None:
    made = shaped({"ssh": arguments}, with_init(task("w", 1)), pod=("w", 0))
    volume = made["spec"]["volumes"][-1]
    assert (volume["name"], volume["secret"]["secretName"], volume["secret"]["defaultMode"]) == ("j-ssh", "j-ssh", mode)
    keys = ("id_rsa", "id_rsa.pub", "authorized_keys", "config")
    assert volume["secret"]["items"] == [{"key": key, "path": f".ssh/{key}"} for key in keys]
    for member in ("containers", "initContainers"):
        mount = made["spec"][member][0]["volumeMounts"][-1]
        assert mount == {"name": "j-ssh", "mountPath": path, "subPath": ".ssh"}


def secret_of(arguments: list[str]) -> dict[str, str]:
    made = msgspec.convert(vcjob("j", task("w", 1)), Job)
    (wanted,) = SshPlugin(arguments).objects(made)
    assert wanted.name == "j-ssh"
    return {key: base64.b64decode(value).decode() for key, value in wanted.body["data"].items()}


def test_ssh_makes_a_key_pair_that_ssh_reads(tmp_path: Path) -> None:
    data = secret_of([])
    assert data["id_rsa"].startswith("-----BEGIN RSA PRIVATE KEY-----\n")
    assert data["authorized_keys"] == data["id_rsa.pub"]
    keygen = shutil.which("ssh-keygen")
    if keygen is None:
        pytest.skip("ssh-keygen is not installed")
    private = tmp_path / "id_rsa"
    private.write_text(data["id_rsa"])
    private.chmod(0o600)
    derived = subprocess.run([keygen, "-y", "-f", str(private)], capture_output=True, text=True, check=True).stdout
    assert derived.split()[:2] == data["id_rsa.pub"].split()


def test_ssh_takes_the_keys_it_is_given() -> None:
    data = secret_of(["--ssh-private-key=mine", "--ssh-public-key=ours"])
    assert (data["id_rsa"], data["id_rsa.pub"], data["authorized_keys"]) == ("mine", "ours", "ours")


@pytest.mark.parametrize(("port", "want"), [("2022", 2022), ("0", 22), ("65536", 22), ("65535", 65535)])
def test_ssh_configuration_knows_every_host(port: str, want: int) -> None:
    fixed = with_spec(task("m", 3), hostname="fixed", subdomain="sub")
    made = msgspec.convert(vcjob("j", fixed, task("w", 2)), Job)
    (wanted,) = SshPlugin(["--ssh-private-key=k", f"--ssh-port={port}"]).objects(made)
    config = base64.b64decode(wanted.body["data"]["config"]).decode()
    assert config == client_config(made, want)
    assert config.splitlines() == [
        "StrictHostKeyChecking no",
        "UserKnownHostsFile /dev/null",
        "Host fixed",
        "  HostName fixed.sub",
        f"  Port {want}",
        "Host j-w-0",
        "  HostName j-w-0.j",
        f"  Port {want}",
        "Host j-w-1",
        "  HostName j-w-1.j",
        f"  Port {want}",
    ]


def test_an_mpi_job_runs_with_the_secret_and_hosts_of_its_plugins() -> None:
    async def scenario(world: World) -> None:
        ends = (task("master", 1, seconds=30), task("worker", 2, seconds=30))
        body = vcjob("j", *ends, plugins={"mpi": [], "ssh": [], "svc": []})
        await world.cluster.create(catalog.VCJOB, body, "default")
        job = await world.until_phase("j", "Running")
        assert dict(job.status.controlled_resources) == {
            "plugin-mpi": "mpi",
            "plugin-ssh": "ssh",
            "plugin-svc": "svc",
        }
        keys = (await world.cluster.get(Secret, "j-ssh", "default")).data
        assert set(keys) == {"id_rsa", "id_rsa.pub", "authorized_keys", "config"}
        master = (await world.pods())["j-master-0"]
        assert {e.name: e.value for e in master.spec.containers[0].env}["MPI_HOST"] == "j-worker-0.j,j-worker-1.j"
        await world.until_phase("j", "Completed")

    play(scenario)


@pytest.mark.parametrize(
    ("hosts_changed", "keeps"),
    [pytest.param(False, True, id="same hosts keep the keys"), pytest.param(True, False, id="new hosts renew it")],
)
def test_an_ssh_secret_that_exists(hosts_changed: bool, keeps: bool) -> None:
    async def scenario(world: World) -> None:
        body = vcjob("j", task("w", 1), plugins={"ssh": []})
        config = client_config(msgspec.convert(body, Job), 22) + ("# old\n" if hosts_changed else "")
        old = {"id_rsa": "b2xk", "config": base64.b64encode(config.encode()).decode()}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "j-ssh"}, "data": old}
        await world.cluster.create(catalog.SECRET, secret, "default")
        await world.cluster.create(catalog.VCJOB, body, "default")
        await world.until_phase("j", "Running")
        now = (await world.cluster.get(Secret, "j-ssh", "default")).data
        assert (dict(now) == old) is keeps

    play(scenario)


def test_killing_a_job_removes_what_its_plugins_made() -> None:
    async def scenario(world: World) -> None:
        body = vcjob("j", task("head", 1), task("worker", 1), plugins={"ray": [], "ssh": []})
        await world.cluster.create(catalog.VCJOB, body, "default")
        job = await world.until_phase("j", "Running")
        service = await world.cluster.get(Service, "j-head-svc", "default")
        assert dict(service.spec.selector)["volcano.sh/task-spec"] == "head"
        assert [(p.name, p.port) for p in service.spec.ports] == [
            ("gcs", 6379),
            ("dashboard", 8265),
            ("client-server", 10001),
        ]
        await world.command("AbortJob", job)
        await world.until_phase("j", "Aborted")
        for view, name in ((Service, "j-head-svc"), (Secret, "j-ssh")):
            with pytest.raises(NotFound):
                await world.cluster.get(view, name, "default")

    play(scenario)


def test_a_ray_job_without_a_head_is_told_so() -> None:
    async def scenario(world: World) -> None:
        await world.cluster.create(catalog.VCJOB, vcjob("j", task("worker", 1), plugins={"ray": []}), "default")
        await world.settle(10)
        assert (await world.cluster.list(Pod, "default")).items == []
        events = (await world.cluster.list(catalog.EVENT, "default")).items
        messages = [event["message"] for event in events if event["reason"] == "FailedCreate"]
        assert any("no task 'head'" in message for message in messages)

    play(scenario)


def test_a_bad_argument_is_logged_and_those_before_it_hold(caplog: pytest.LogCaptureFixture) -> None:
    made = shaped({"mpi": ["--port=2022", "--what=1", "--worker=none"]}, *LAUNCHER_AND_WORKERS, pod=("master", 0))
    assert ports(made) == [("mpijob-port", 2022)]
    assert "job plugin mpi: flag provided but not defined: -what" in caplog.text
