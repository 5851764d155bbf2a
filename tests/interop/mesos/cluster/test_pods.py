"""Tasks as pods, pods as states of tasks, nodes as agents."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from strato.api.core import Node, Pod
from strato.interop.mesos.cluster.groups import queue_of
from strato.interop.mesos.cluster.mounts import claim_name
from strato.interop.mesos.cluster.nodes import Dimensions, facts_of, pod_use, requests_of
from strato.interop.mesos.cluster.pods import PodSettings, command_line, pod_of
from strato.interop.mesos.cluster.pods import facts_of as unit_facts
from strato.interop.mesos.master.agents import Observed
from strato.interop.mesos.master.effects import PodLaunch
from strato.interop.mesos.master.volumes import volume_name
from strato.interop.mesos.resourcejson import from_json
from strato.interop.mesos.resourcetext import parse, to_text
from tests.interop.mesos.worlds import task

SETTINGS = PodSettings("mesos", "tasks", "img", "10.0.0.1:5050")


def _pod(*tasks: Any, executor: Any = None, is_group: bool = False, resources: str = "cpus:1;mem:64") -> Any:
    launch = PodLaunch("u", "f-1", "S0", "*", tasks, executor, is_group, parse(resources), "nobody")
    return pod_of(launch, "node-1", "group", "{}", SETTINGS)


def test_a_command_task_is_one_container_bound_to_its_node() -> None:
    pod = _pod(task(command={"value": "echo $A $(B)", "environment": {"variables": [{"name": "A", "value": "$(x)"}]}}))
    spec, [container] = pod["spec"], pod["spec"]["containers"]
    assert (spec["nodeName"], spec["restartPolicy"], spec["terminationGracePeriodSeconds"]) == ("node-1", "Never", 3)
    assert container["command"] == ["/bin/sh", "-c", "echo $A $(B)"]
    assert {"name": "A", "value": "$$(x)"} in container["env"]
    assert container["resources"] == {"requests": {"cpu": "1000m", "memory": "67108864"}, "limits": {"memory": "96Mi"}}
    assert pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"] == "group"
    msgspec.convert(pod, Pod)


@pytest.mark.parametrize(
    ("command", "line"),
    [
        ({"value": "a b"}, {"command": ["/bin/sh", "-c", "a b"]}),
        ({"shell": False, "value": "/bin/a", "arguments": ["a", "b"]}, {"command": ["/bin/a", "b"]}),
        ({"shell": False, "arguments": ["b"]}, {"args": ["b"]}),
        ({"shell": False}, {}),
        ({}, {}),
    ],
)
def test_command_lines(command: dict[str, Any], line: dict[str, Any]) -> None:
    assert command_line(command) == line


def test_ports_health_checks_limits_and_deadlines_are_the_pods() -> None:
    ports = {"name": "ports", "type": "RANGES", "ranges": {"range": [{"begin": 31000, "end": 31001}]}}
    check = {"type": "HTTP", "http": {"port": 31000, "path": "/up"}, "consecutive_failures": 2}
    info = task(
        health_check=check, limits={"cpus": {"value": 2}}, max_completion_time={"nanoseconds": 1_500_000_000},
        kill_policy={"grace_period": {"nanoseconds": 10**10}},
    )  # fmt: skip
    info["resources"].append(ports)
    pod = _pod(info)
    [container] = pod["spec"]["containers"]
    assert [port["hostPort"] for port in container["ports"]] == [31000, 31001]
    assert container["livenessProbe"]["failureThreshold"] == 2
    assert container["readinessProbe"]["httpGet"] == {"port": 31000, "path": "/up", "scheme": "HTTP"}
    assert container["resources"]["limits"] == {"cpu": "2000m", "memory": "96Mi"}
    assert (pod["spec"]["activeDeadlineSeconds"], pod["spec"]["terminationGracePeriodSeconds"]) == (2, 10)


def test_docker_images_networks_and_volumes() -> None:
    docker = {"image": "redis", "network": "HOST", "privileged": True, "force_pull_image": True}
    volumes = [{"container_path": "/d", "host_path": "/data", "mode": "RO"}, {"container_path": "own", "mode": "RW"}]
    pod = _pod(task(container={"type": "DOCKER", "docker": docker, "volumes": volumes}))
    [container] = pod["spec"]["containers"]
    assert (container["image"], container["imagePullPolicy"], pod["spec"]["hostNetwork"]) == ("redis", "Always", True)
    assert [mount["mountPath"] for mount in container["volumeMounts"]][1:] == ["/d", "/mnt/mesos/sandbox/own"]
    assert pod["spec"]["volumes"][1] == {"name": "task-0-0", "hostPath": {"path": "/data"}}


def test_persistent_volumes_are_claims_in_the_sandbox() -> None:
    """Of a group each container has its own task's."""
    disk = {
        "name": "disk",
        "type": "SCALAR",
        "scalar": {"value": 10},
        "reservations": [{"type": "STATIC", "role": "r"}],
    }
    infos = []
    for name, path in (("a", "data"), ("b", "/var/data")):
        volume = {**disk, "disk": {"persistence": {"id": name}, "volume": {"container_path": path, "mode": "RW"}}}
        infos.append({**task(name), "resources": [*task()["resources"], volume]})
    resources = from_json(infos[0]["resources"]) + from_json(infos[1]["resources"])
    launch = PodLaunch("u", "F", "S0", "r", tuple(infos), None, True, resources, "u")
    pod = pod_of(launch, "node", "", "{}", SETTINGS)
    mounts = [[mount["mountPath"] for mount in each["volumeMounts"][1:]] for each in pod["spec"]["containers"]]
    assert mounts == [["/mnt/mesos/sandbox/data"], ["/var/data"]]
    claims = [volume["persistentVolumeClaim"]["claimName"] for volume in pod["spec"]["volumes"][1:]]
    assert claims == [claim_name("mesos", volume_name("S0", "r", name)) for name in ("a", "b")]


def test_files_are_fetched_before_the_task_starts() -> None:
    uris = [{"value": "http://x/a.tgz"}, {"value": "/opt/it's", "executable": True, "output_file": "run"}]
    [fetcher] = _pod(task(command={"value": "x", "uris": uris}))["spec"]["initContainers"]
    script = fetcher["command"][2]
    assert "fetch 'http://x/a.tgz' 'a.tgz'\ntar xf 'a.tgz'" in script
    assert "fetch '/opt/it'\\''s' 'run'\nchmod a+x 'run'" in script


def test_a_group_is_one_container_per_task_and_its_executor_is_paid_for() -> None:
    executor = {"type": "DEFAULT", "executor_id": {"value": "e"}, "resources": task()["resources"]}
    pod = _pod(task("a"), task("b"), executor=executor, is_group=True, resources="cpus:3;mem:192")
    requests = [container["resources"]["requests"]["cpu"] for container in pod["spec"]["containers"]]
    assert requests == ["2000m", "1000m"]


def test_an_executor_is_told_where_its_agent_is() -> None:
    executor = {"executor_id": {"value": "e"}, "command": {"value": "run"}}
    info = task(executor=executor)
    [container] = _pod(info, executor=executor, resources="cpus:2;mem:64")["spec"]["containers"]
    variables = {each["name"]: each["value"] for each in container["env"]}
    assert variables["MESOS_AGENT_ENDPOINT"] == "10.0.0.1:5050"
    assert (variables["MESOS_EXECUTOR_ID"], variables["MESOS_SLAVE_ID"]) == ("e", "S0")
    assert container["resources"]["requests"]["cpu"] == "2000m"


def _facts(status: dict[str, Any], metadata: dict[str, Any] | None = None, **container: Any) -> Observed:
    body = {
        "metadata": {"name": "u", "uid": "x", **(metadata or {})},
        "spec": {"containers": [{"name": "task-0", **container}]},
        "status": status,
    }
    [seen] = unit_facts(msgspec.convert(body, Pod)).tasks
    return seen


def _container(**state: Any) -> dict[str, Any]:
    return {"phase": "Running", "containerStatuses": [{"name": "task-0", "state": state}]}


_DELETED = {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0}


@pytest.mark.parametrize(
    ("status", "metadata", "state", "reason"),
    [
        ({"phase": "Pending"}, {}, "TASK_STAGING", ""),
        ({"phase": "Pending", "startTime": "2026-01-01T00:00:00Z"}, {}, "TASK_STARTING", ""),
        (_container(running={}), {}, "TASK_RUNNING", ""),
        (_container(waiting={"reason": "ErrImagePull"}), {}, "TASK_STARTING", ""),
        (_container(waiting={"reason": "ImagePullBackOff"}), {}, "TASK_FAILED", "REASON_CONTAINER_LAUNCH_FAILED"),
        (_container(terminated={"exitCode": 0}), {}, "TASK_FINISHED", ""),
        (_container(terminated={"exitCode": 3}), {}, "TASK_FAILED", ""),
        (_container(terminated={"exitCode": 137, "reason": "OOMKilled"}), {}, "TASK_FAILED",
         "REASON_CONTAINER_LIMITATION_MEMORY"),
        ({"phase": "Failed", "reason": "Evicted"}, {}, "TASK_GONE", "REASON_CONTAINER_PREEMPTED"),
        ({"phase": "Failed", "reason": "OutOfcpu"}, {}, "TASK_FAILED", "REASON_CONTAINER_LAUNCH_FAILED"),
        ({"phase": "Failed", "reason": "DeadlineExceeded"}, {}, "TASK_FAILED", "REASON_MAX_COMPLETION_TIME_REACHED"),
        ({"phase": "Succeeded"}, {}, "TASK_FINISHED", ""),
        (_container(running={}), _DELETED, "TASK_FAILED", ""),
    ],
)  # fmt: skip
def test_states_of_pods(status: dict[str, Any], metadata: dict[str, Any], state: str, reason: str) -> None:
    seen = _facts(status, metadata)
    assert (seen.state, seen.reason) == (state, reason)


def test_exit_messages_say_the_status_or_the_signal_and_what_the_node_says() -> None:
    assert _facts(_container(terminated={"exitCode": 3})).message == "Command exited with status 3"
    assert _facts(_container(terminated={"exitCode": 143})).message == "Command terminated with signal 15"
    said = _facts(_container(terminated={"exitCode": 127, "message": "/root/a: not seen"}))
    assert said.message == "Command exited with status 127: /root/a: not seen"


def test_a_node_is_offered_without_what_others_hold() -> None:
    node = msgspec.convert(
        {
            "metadata": {"name": "n", "uid": "u", "labels": {"a": "b", "topology.kubernetes.io/region": "r"}},
            "status": {
                "allocatable": {"cpu": "4", "memory": "4097Ki", "nvidia.com/gpu": "2"},
                "conditions": [{"type": "Ready", "status": "True"}],
                "addresses": [{"type": "InternalIP", "address": "10.0.0.7"}],
            },
        },
        Node,
    )
    requests = {"cpu": "1500m", "memory": "1Mi"}
    ports = [{"containerPort": 80, "hostPort": 31000}]
    other = msgspec.convert({"spec": {"containers": [{"resources": {"requests": requests}, "ports": ports}]}}, Pod)
    facts = facts_of(node, [pod_use(other)], Dimensions())
    assert to_text(facts.total) == "cpus:2.5; mem:3; gpus:2; ports:[31001-32000]"
    assert (facts.id, facts.hostname, facts.ip, facts.region) == ("u-S0", "n", "10.0.0.7", "r")
    assert facts.is_ready
    assert facts.is_schedulable


def test_requests_are_exact() -> None:
    wanted = requests_of(parse("cpus:0.1;mem:32;gpus:1;disk:5;ports:[1-2]"), Dimensions())
    assert wanted == {"cpu": "100m", "memory": "33554432", "nvidia.com/gpu": "1", "ephemeral-storage": "5242880"}


@pytest.mark.parametrize(("role", "queue"), [("*", "default"), ("prod", "prod"), ("a/b", "a-b-"), ("Prod", "prod-")])
def test_roles_are_queues(role: str, queue: str) -> None:
    name = queue_of(role)
    assert name == queue or (queue.endswith("-") and name.startswith(queue) and len(name) == len(queue) + 8)
