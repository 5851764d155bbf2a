"""Real processes: what a pod on the sandbox node sees, and how it ends."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from strato.api import catalog
from strato.node.sandbox.cleanup import teardown
from strato.node.sandbox.permissions import plain_warning
from strato.node.sandbox.podlimits import PROCESSES
from strato.node.sandbox.settings import ImagePolicy, PodNetwork
from tests.node.fake_api import FakeApi
from tests.node.sandboxes import GO_VOLUME, World, running, until


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with running(tmp_path / "node", FakeApi()) as found:
        yield found
    teardown(tmp_path / "node")


async def test_the_node_has_what_the_machine_has(world: World) -> None:
    capacity = world.api.objects["/api/v1/nodes/here"]["status"]["capacity"]
    assert capacity["cpu"] == str(len(os.sched_getaffinity(0)))
    assert capacity["memory"] == f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') // 1024}Ki"
    assert (
        capacity["ephemeral-storage"] == f"{shutil.disk_usage(world.node._machine.node_paths.data_dir).total // 1024}Ki"
    )


async def test_a_pod_runs_as_a_process_and_its_output_is_its_log(world: World) -> None:
    world.sh("p", "echo out; echo err >&2; exit 3")
    status = await world.finished("p")
    ended = status["containerStatuses"][0]["state"]["terminated"]
    assert (status["phase"], ended["exitCode"], ended["reason"]) == ("Failed", 3, "Error")
    assert ended["startedAt"]
    assert ended["finishedAt"]
    assert await world.log("p") in ("out\nerr\n", "err\nout\n")


async def test_a_signal_is_told_as_128_plus_its_number(world: World) -> None:
    world.sh("p", "kill -TERM $$$$")
    status = await world.finished("p")
    ended = status["containerStatuses"][0]["state"]["terminated"]
    assert (ended["exitCode"], ended["signal"]) == (143, 15)


async def test_mounted_config_follows_its_object(tmp_path: Path) -> None:
    path = "/api/v1/namespaces/default/configmaps/conf"
    conf = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "conf"}}
    async with running(tmp_path / "node", FakeApi(), refresh_seconds=0.05) as world:
        world.api.put(path, {**conf, "data": {"hosts": "one"}})
        script = "until grep -q two /conf/hosts; do cat /conf/hosts; echo; sleep 0.05; done; cat /conf/hosts /conf/new"
        mounts = {"volumeMounts": [{"name": "conf", "mountPath": "/conf"}]}
        world.sh("p", script, volumes=[{"name": "conf", "configMap": {"name": "conf"}}], container=mounts)
        await until(lambda: world.api.phase("p") == "Running")
        world.api.put(path, {**conf, "data": {"hosts": "two", "new": "key"}})
        await world.finished("p")
        assert (await world.log("p")).endswith("twokey")
    teardown(tmp_path / "node")


async def test_logs_outlive_strato_down_until_the_pod_is_gone(tmp_path: Path) -> None:
    """What has ended can be read in the next life; what begins anew has no lines of the former one."""
    api, go = FakeApi(), GO_VOLUME(tmp_path)
    async with running(tmp_path / "node", api) as world:
        for name in ("done", "gone"):
            world.sh(name, f"echo {name}", **GO_VOLUME(tmp_path))
            await world.finished(name)
        world.sh(
            "busy",
            "echo once; until [ -e /go/on ]; do sleep 0.05; done; echo end; sleep 600",
            restartPolicy="Always",
            **go,
        )
        await until(lambda: world.api.phase("busy") == "Running")
    teardown(tmp_path / "node", anew=True)
    del api.objects["/api/v1/namespaces/default/pods/gone"]
    homes = tmp_path / "node" / "pods"
    assert {path.name for home in homes.iterdir() for path in home.iterdir()} == {"logs", "anew"}
    (tmp_path / "go" / "on").touch()
    async with running(tmp_path / "node", api) as world:
        assert await world.log("done", follow=True) == "done\n"
        await until(lambda: len(list(homes.iterdir())) == 2)
        uid = world.api.objects["/api/v1/namespaces/default/pods/busy"]["metadata"]["uid"]
        logs = homes / uid / "logs" / "main"
        await until(lambda: "end" in _text_below(logs))
        assert _text_below(logs).count("once") == 1
    teardown(tmp_path / "node")


def _text_below(logs: Path) -> str:
    """Return what logs say that may be removed at this moment."""
    with contextlib.suppress(FileNotFoundError):
        return "".join(path.read_text() for path in logs.glob("*.log"))
    return ""


async def test_volumes_appear_at_their_paths(world: World, tmp_path: Path) -> None:
    host = tmp_path / "host"
    host.mkdir()
    (host / "file").write_text("from the machine")
    world.api.put(
        "/api/v1/namespaces/default/configmaps/conf",
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "conf"}, "data": {"key": "value", "b": "2"}},
    )
    world.api.put(
        "/api/v1/namespaces/default/secrets/sec",
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "sec"}, "data": {"token": "c2VjcmV0"}},
    )
    volumes = [
        {"name": "conf", "configMap": {"name": "conf", "items": [{"key": "key", "path": "deep/name", "mode": 0o400}]}},
        {"name": "sec", "secret": {"secretName": "sec"}},
        {"name": "tmp", "emptyDir": {}},
        {"name": "mem", "emptyDir": {"medium": "Memory"}},
        {"name": "host", "hostPath": {"path": str(host)}},
        {"name": "down", "downwardAPI": {"items": [{"path": "n", "fieldRef": {"fieldPath": "metadata.name"}}]}},
        {
            "name": "all",
            "projected": {
                "sources": [
                    {"configMap": {"name": "conf"}},
                    {"secret": {"name": "sec"}},
                    {"serviceAccountToken": {"path": "jwt"}},
                ]
            },
        },
    ]
    mounts = [
        {"name": "conf", "mountPath": "/etc/volcano"},
        {"name": "sec", "mountPath": "/secret/here"},
        {"name": "tmp", "mountPath": "/src"},
        {"name": "tmp", "mountPath": "/sub", "subPath": "below"},
        {"name": "mem", "mountPath": "/dev/shm/x"},
        {"name": "host", "mountPath": "/data", "readOnly": True},
        {"name": "down", "mountPath": "/down"},
        {"name": "all", "mountPath": "/all"},
    ]
    script = (
        "cat /etc/volcano/deep/name; echo; cat /secret/here/token; echo; echo x > /src/x && cat /src/x;"
        "echo y > /sub/y && cat /src/below/y; echo m > /dev/shm/x/m && cat /dev/shm/x/m; cat /data/file; echo;"
        "echo no > /data/file || echo read-only; cat /down/n; echo; ls /all; echo z > /etc/volcano/z || echo read-only"
    )
    world.sh("p", script, volumes=volumes, container={"volumeMounts": mounts})
    await world.finished("p")
    lines = [line for line in (await world.log("p")).splitlines() if "sh:" not in line]
    assert lines == [
        "value",
        "secret",
        "x",
        "y",
        "m",
        "from the machine",
        "read-only",
        "p",
        "b",
        "jwt",
        "key",
        "token",
        "read-only",
    ]


async def test_siblings_find_one_another_by_name(world: World) -> None:
    names = ("a-0", "a-1")
    script = (
        "for i in $(seq 2000); do getent hosts {0}.svc && getent hosts {0}.svc.default.svc.cluster.local && exit;"
        " sleep 0.05; done; exit 1"
    )
    for name, other in zip(names, names[::-1], strict=True):
        world.sh(name, script.format(other), hostname=name, subdomain="svc")
    for name in names:
        await world.finished(name)
    for name, other in zip(names, names[::-1], strict=True):
        ip = world.api.objects[f"/api/v1/namespaces/default/pods/{other}"]["status"]["podIP"]
        assert ip in await world.log(name)


async def test_pods_talk_over_their_own_addresses(world: World) -> None:
    listen = (
        "import socket; s = socket.create_server((socket.gethostbyname(socket.gethostname()), 2222)); "
        "c, a = s.accept(); print(c.recv(9).decode(), flush=True)"
    )
    call = (
        "import socket, time\nfor _ in range(4000):\n try:\n"
        "  socket.create_connection(('s.svc', 2222)).send(b'hello'); break\n"
        " except OSError: time.sleep(0.05)"
    )
    for name, program in (("s", listen), ("s2", listen), ("c", call)):
        container = {"name": "main", "image": "strato/host", "command": ["python", "-c", program]}
        world.api.create_pod(name, "here", containers=[container], hostname=name, subdomain="svc")
    await world.finished("c")
    await world.finished("s")
    assert await world.log("s") == "hello\n"
    assert world.api.phase("s2") == "Running"
    await world.api.cluster().delete(catalog.POD, "s2", "default", grace_period_seconds=1)
    await until(lambda: world.api.phase("s2") == "gone")


async def test_failing_containers_restart_with_backoff_and_keep_their_previous_log(world: World) -> None:
    world.sh("p", "echo run; exit 1", restartPolicy="OnFailure")

    def restarted() -> bool:
        statuses = world.api.objects["/api/v1/namespaces/default/pods/p"]["status"].get("containerStatuses")
        return bool(statuses) and statuses[0]["restartCount"] >= 2

    await until(restarted)
    status = world.api.objects["/api/v1/namespaces/default/pods/p"]["status"]
    assert status["phase"] == "Running"
    assert status["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 1
    assert await world.log("p", previous=True) == "run\n"
    await world.api.cluster().delete(catalog.POD, "p", "default")
    await until(lambda: world.api.phase("p") == "gone")


async def test_init_containers_run_in_order_before_the_others(world: World) -> None:
    mount = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}

    def container(name: str, script: str) -> dict[str, Any]:
        return {"name": name, "image": "strato/host", "command": ["sh", "-c", script], **mount}

    world.api.create_pod(
        "p",
        "here",
        initContainers=[container("one", "echo 1 >> /v/f"), container("two", "echo 2 >> /v/f")],
        containers=[container("main", "cat /v/f")],
        volumes=[{"name": "v", "emptyDir": {}}],
    )
    status = await world.finished("p")
    assert await world.log("p") == "1\n2\n"
    assert [s["state"]["terminated"]["reason"] for s in status["initContainerStatuses"]] == ["Completed"] * 2


async def test_termination_waits_for_the_grace_period_and_then_kills(world: World) -> None:
    world.sh("p", "trap 'echo stubborn' TERM; echo up; while true; do sleep 0.05; done")
    await until(lambda: world.api.phase("p") == "Running")
    uid = world.api.objects["/api/v1/namespaces/default/pods/p"]["metadata"]["uid"]
    log = Path(world.node._machine.node_paths.pod(uid).log("main", 0))
    await until(lambda: b"up" in log.read_bytes())
    await world.api.cluster().delete(catalog.POD, "p", "default", grace_period_seconds=1)
    await until(lambda: b"stubborn" in log.read_bytes())
    await until(lambda: world.api.phase("p") == "gone")
    await until(lambda: not log.exists())


async def test_the_last_status_of_a_pod_that_is_kept_repeats_what_others_said_of_it(world: World) -> None:
    world.sh("p", "trap 'exit 5' TERM; echo up; while true; do sleep 0.05; done", finalizers=["example.com/counts"])
    await until(lambda: world.api.phase("p") == "Running")
    found = world.api.pod("p")
    assert found is not None
    log = Path(world.node._machine.node_paths.pod(found["metadata"]["uid"]).log("main", 0))
    await until(lambda: b"up" in log.read_bytes())
    evicted = {"type": "DisruptionTarget", "status": "True"}
    status = {"status": {"conditions": [*found["status"]["conditions"], evicted]}}
    await world.api.cluster().patch(catalog.POD, "p", "default", status, subresource="status")
    await world.api.cluster().delete(catalog.POD, "p", "default")
    last = await world.finished("p")
    assert last["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 5
    assert [one["status"] for one in last["conditions"] if one["type"] == "DisruptionTarget"] == ["True"]


async def test_the_deadline_kills_and_says_so(world: World) -> None:
    world.sh("p", "sleep 100", activeDeadlineSeconds=1, terminationGracePeriodSeconds=1)
    status = await world.finished("p")
    assert (status["phase"], status["reason"]) == ("Failed", "DeadlineExceeded")


async def test_unknown_images_run_on_the_machine_or_wait_with_advice(world: World) -> None:
    world.node._machine.image_policy = ImagePolicy(strict=False)
    command = {"name": "main", "image": "busybox", "command": ["true"]}
    world.api.create_pod("ok", "here", containers=[command])
    world.api.create_pod("bad", "here", containers=[{"name": "main", "image": "registry.invalid/busybox"}])
    await world.finished("ok")

    def waiting() -> dict[str, Any]:
        statuses = world.api.objects["/api/v1/namespaces/default/pods/bad"]["status"].get("containerStatuses", [{}])
        return statuses[0].get("state", {}).get("waiting", {})

    await until(lambda: waiting().get("reason") == "ImagePullBackOff")
    assert "strato image import registry.invalid/busybox" in waiting()["message"]
    assert any(reason == "ImageSubstituted" for reason, _ in await world.events())
    assert world.node.summary().substituted_containers == 1


async def test_imported_images_are_writable_roots_of_their_own(world: World, tmp_path: Path) -> None:
    root = tmp_path / "image"
    for directory in ("bin", "lib", "lib64", "usr"):
        if os.path.isdir(f"/{directory}"):
            (root / directory).mkdir(parents=True)
    (root / "marker").write_text("mine")
    world.node.images.import_image("tiny:1", root)
    shared = [d for d in ("bin", "lib", "lib64", "usr") if os.path.isdir(f"/{d}")]
    mounts = [{"name": d, "mountPath": f"/{d}", "readOnly": True} for d in shared]
    volumes = [{"name": d, "hostPath": {"path": f"/{d}"}} for d in shared]
    container = {"name": "main", "image": "tiny:1", "volumeMounts": mounts}
    container["command"] = ["sh", "-c", "cat /marker; echo more >> /marker; cat /marker"]
    world.api.create_pod("p", "here", containers=[container], volumes=volumes)
    await world.finished("p")
    assert await world.log("p") == "mineminemore\n"
    assert (root / "marker").read_text() == "mine"


async def test_a_command_that_does_not_exist_is_a_start_error(world: World) -> None:
    world.api.create_pod("p", "here", containers=[{"name": "main", "image": "strato/host", "command": ["no-such"]}])
    status = await world.finished("p")
    ended = status["containerStatuses"][0]["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (128, "StartError")
    assert "executable file not found" in ended["message"]


async def test_too_much_memory_is_an_oom_kill(world: World) -> None:
    if not world.node.summary().limits:
        pytest.skip("control groups cannot be written here")
    program = "x = bytearray(200 << 20)"
    resources = {"limits": {"memory": "32Mi"}}
    container = {"name": "main", "image": "strato/host", "command": ["python", "-c", program], "resources": resources}
    world.api.create_pod("p", "here", containers=[container])
    status = await world.finished("p")
    ended = status["containerStatuses"][0]["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (137, "OOMKilled")


async def test_limits_are_in_the_groups_of_a_running_container_and_go_with_the_pod(world: World) -> None:
    """Of version 2 or 1, whichever this machine lets us write."""
    if not world.node.summary().limits:
        pytest.skip("control groups cannot be written here")
    resources = {"limits": {"cpu": "500m", "memory": "64Mi"}, "requests": {"cpu": "250m", "memory": "64Mi"}}
    world.sh("p", "sleep 1000", container={"resources": resources})
    await until(lambda: world.api.phase("p") == "Running")
    uid = world.api.objects["/api/v1/namespaces/default/pods/p"]["metadata"]["uid"]
    cgroups = world.node._machine.cgroups
    want = {
        "unified": {
            "cpu.max": "50000 100000",
            "cpu.weight": "10",
            "memory.max": "67108864",
            "pids.max": str(PROCESSES),
        },
        "cpu": {"cpu.cfs_quota_us": "50000", "cpu.shares": "256"},
        "cpuacct": {},  # holds no limits
        "memory": {"memory.limit_in_bytes": "67108864"},
        "pids": {"pids.max": str(PROCESSES)},
    }
    groups = {hierarchy: Path(home) / uid for hierarchy, home in cgroups._roots.items()}
    for hierarchy, group in groups.items():
        assert {name: (group / "main" / name).read_text().strip() for name in want[hierarchy]} == want[hierarchy]
    assert cgroups.processes(f"{uid}/main")
    await world.api.cluster().delete(catalog.POD, "p", "default", grace_period_seconds=1)
    await until(lambda: world.api.phase("p") == "gone")
    assert not any(group.exists() for group in groups.values())


async def test_followed_logs_end_with_the_container(world: World) -> None:
    world.sh("p", "echo one; sleep 0.3; echo two")
    await until(lambda: world.api.phase("p") == "Running")
    assert await world.log("p", follow=True) == "one\ntwo\n"
    assert await world.log("p", tail_lines=1) == "two\n"
    assert await world.log("p", limit_bytes=5) == "one\nt"
    assert (await world.log("p", timestamps=True)).splitlines()[0].endswith("Z one")
    assert await world.log("p", since_seconds=0.0) == ""


ISOLATIONS = [
    pytest.param({}, "own", id="root", marks=pytest.mark.skipif(os.geteuid() != 0, reason="needs root")),
    pytest.param({"network": PodNetwork.HOST}, "own", id="root on the machine's network"),
    pytest.param({"level": "user"}, "own", id="an ordinary user"),
    pytest.param({"level": "plain"}, "machine", id="no namespaces"),
]
LOOK = """
echo ip $IP
echo name $(hostname)
echo files $(cat /conf/key 2>/dev/null || echo machine)
echo pids $(test -e /proc/%d && echo machine || echo own)
echo tmp $(test -e %s && echo machine || echo own)
kill -TERM $$$$
"""


@pytest.mark.parametrize(("options", "whose"), ISOLATIONS)
async def test_each_isolation_keeps_its_promises(tmp_path: Path, options: dict[str, Any], whose: str) -> None:
    """Exit codes, addresses and logs are the same everywhere; without namespaces the rest is the machine's."""
    api = FakeApi()
    conf = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "conf"}, "data": {"key": "own"}}
    api.put("/api/v1/namespaces/default/configmaps/conf", conf)
    mounts = [{"name": "conf", "mountPath": "/conf"}]
    async with running(tmp_path / "node", api, **options) as world:
        world.sh(
            "p",
            LOOK % (os.getpid(), tmp_path),
            container={"env": [IP_VARIABLE], "volumeMounts": mounts},
            volumes=[{"name": "conf", "configMap": {"name": "conf"}}],
        )
        status = await world.finished("p")
        ended = status["containerStatuses"][0]["state"]["terminated"]
        assert (status["phase"], ended["exitCode"], ended["signal"]) == ("Failed", 143, 15)
        said = dict(line.split() for line in (await world.log("p")).splitlines())
        name = "p" if whose == "own" else os.uname().nodename
        assert said == {"ip": status["podIP"], "name": name, "files": whose, "pids": whose, "tmp": whose}
        assert status["podIP"].startswith("127.") is bool(options)
        plain = [text for text in world.node.summary().warnings if "plain processes" in text]
        assert bool(plain) is (whose == "machine")
    teardown(tmp_path / "node")


async def test_an_image_is_not_replaced_by_the_machine_where_it_cannot_be_mounted(tmp_path: Path) -> None:
    (tmp_path / "image").mkdir()
    async with running(tmp_path / "node", FakeApi(), level="plain") as world:
        world.node.images.import_image("tiny", tmp_path / "image")
        world.api.create_pod("p", "here", containers=[{"name": "main", "image": "tiny", "command": ["true"]}])

        def waiting() -> dict[str, Any]:
            statuses = world.api.objects["/api/v1/namespaces/default/pods/p"]["status"].get("containerStatuses", [{}])
            return statuses[0].get("state", {}).get("waiting", {})

        await until(lambda: waiting().get("reason") == "CreateContainerConfigError")
        assert "allows no namespaces" in waiting()["message"]
    teardown(tmp_path / "node")


@pytest.mark.parametrize(
    ("setting", "advice"),
    [
        (
            "kernel/apparmor_restrict_unprivileged_userns=1",
            "sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0",
        ),
        ("user/max_user_namespaces=0", "sudo sysctl user.max_user_namespaces=10000"),
        ("kernel/apparmor_restrict_unprivileged_userns=0", ""),
    ],
)
def test_the_warning_names_the_setting_that_forbids_namespaces(tmp_path: Path, setting: str, advice: str) -> None:
    path, _, value = setting.partition("=")
    (tmp_path / path).parent.mkdir()
    (tmp_path / path).write_text(value + "\n")
    warning = plain_warning(str(tmp_path))
    assert advice in warning
    assert ("sysctl" in warning) is bool(advice)


IP_VARIABLE = {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}


async def test_containers_survive_a_restart_of_the_node(tmp_path: Path) -> None:
    api = FakeApi()
    async with running(tmp_path / "node", api) as world:
        world.sh("long", "echo up; while [ ! -e /go/on ]; do sleep 0.02; done; exit 7", **GO_VOLUME(tmp_path))
        await until(lambda: api.phase("long") == "Running")
        before = api.objects["/api/v1/namespaces/default/pods/long"]["status"]["podIP"]
    (tmp_path / "go").mkdir(exist_ok=True)
    async with running(tmp_path / "node", api) as world:
        await until(lambda: len(world.node._workers) == 1)
        (tmp_path / "go" / "on").touch()
        status = await world.finished("long")
        ended = status["containerStatuses"][0]["state"]["terminated"]
        assert (ended["exitCode"], status["podIP"]) == (7, before)
        assert status["containerStatuses"][0]["restartCount"] == 0
        assert await world.log("long") == "up\n"
    teardown(tmp_path / "node")


async def test_endings_while_no_node_runs_are_learned_later(tmp_path: Path) -> None:
    api = FakeApi()
    async with running(tmp_path / "node", api) as world:
        world.sh("p", "while [ ! -e /go/on ]; do sleep 0.02; done; exit 9", **GO_VOLUME(tmp_path))
        await until(lambda: api.phase("p") == "Running")
        uid = api.objects["/api/v1/namespaces/default/pods/p"]["metadata"]["uid"]
        ending = Path(world.node._machine.node_paths.pod(uid).attempt("main", 0)) / "exit.json"
    (tmp_path / "go" / "on").touch()
    await until(ending.exists)
    async with running(tmp_path / "node", api) as world:
        status = await world.finished("p")
        assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 9
    teardown(tmp_path / "node")
