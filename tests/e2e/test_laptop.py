"""The laptop world: real processes in sandboxes, the examples, and crashes."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from strato.node.sandbox import linux
from strato.node.sandbox.egress import table_name
from strato.node.sandbox.network import bridge_name
from tests.e2e.conftest import EXAMPLES
from tests.e2e.test_jobs import submit, vcjob
from tests.e2e.worlds import STRATO, EmbeddedWorld, alive, eventually, rounds

pytestmark = [pytest.mark.e2e, pytest.mark.embedded]

Laptop = Callable[..., EmbeddedWorld]


@pytest.mark.timeout(800)
@pytest.mark.parametrize("copies", [1, 2, 5])
def test_copies_of_the_training_job_all_finish(copies: int) -> None:
    demo = EXAMPLES / "parameter-server" / "demo.py"
    done = subprocess.run(
        [sys.executable, str(demo), "--copies", str(copies)], text=True, capture_output=True, timeout=760, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"all {copies} jobs completed" in done.stdout
    assert re.search(r"accuracy 0\.9|accuracy 1\.0", done.stdout)


def process_pod(name: str, script: str, **spec: object) -> str:
    container = {"name": "main", "image": "strato/host", "command": ["sh", "-c", script]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}}
    return json.dumps({**pod, "spec": {"restartPolicy": "Never", "containers": [container], **spec}})


@pytest.mark.timeout(360)
def test_pods_are_processes_with_logs_volumes_and_exit_codes(laptop: Laptop) -> None:
    world = laptop("--cpus", "4")
    world.kubectl("create", "configmap", "app", "--from-literal=greeting=hello")
    script = "cat /app/greeting; echo; hostname; echo oops >&2; exit 7"
    pod = json.loads(process_pod("talker", script, volumes=[{"name": "app", "configMap": {"name": "app"}}]))
    pod["spec"]["containers"][0]["volumeMounts"] = [{"name": "app", "mountPath": "/app"}]
    world.kubectl("create", "-f", "-", stdin=json.dumps(pod))
    eventually(lambda: world.get("pod", "talker")["status"].get("phase") == "Failed", what="pod has failed")
    assert sorted(world.kubectl("logs", "talker").split()) == ["hello", "oops", "talker"]
    state = world.get("pod", "talker")["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (state["exitCode"], state["reason"]) == (7, "Error")


@pytest.mark.timeout(360)
def test_logs_are_followed_until_the_container_ends(laptop: Laptop) -> None:
    world = laptop("--cpus", "4")
    world.kubectl("create", "-f", "-", stdin=process_pod("counter", "for i in 1 2 3 4 5; do echo $i; sleep 0.3; done"))
    eventually(lambda: world.get("pod", "counter")["status"].get("phase") != "Pending", what="pod has started")
    assert world.kubectl("logs", "-f", "counter").split() == ["1", "2", "3", "4", "5"]
    assert world.kubectl("logs", "--tail=2", "counter").split() == ["4", "5"]


@pytest.mark.timeout(360)
def test_nodes_of_a_former_start_do_not_stay(laptop: Laptop) -> None:
    """They would look ready until their leases end, and pods would be bound to nobody."""
    world = laptop("--cpus", "4", "--hollow-nodes", "2")
    assert len(world.items("nodes")) == 3
    world.own("down")
    world.own("up", "--port", "0", "--no-sandbox", "--hollow-nodes", "1")
    assert [node["metadata"]["name"] for node in world.items("nodes")] == ["hollow-0"]


@pytest.mark.timeout(360)
@pytest.mark.timeout(360)
def test_the_pods_egress_is_closed_by_down_also_after_kill_9(laptop: Laptop) -> None:
    if os.geteuid() != 0 or shutil.which("nft") is None:
        pytest.skip("needs root and nft; on Debian: apt-get install nftables")

    def tables() -> set[str]:
        listed = subprocess.run(["nft", "list", "tables", "ip"], text=True, capture_output=True, check=True).stdout
        return set(listed.splitlines())

    world = laptop("--cpus", "4")
    table = f"table ip {table_name(bridge_name(str(world.home / 'node')))}"
    assert table in tables()
    world.kill()
    world.own("down")
    assert table not in tables()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[None]:
    """Give the node of the cluster that is started next a disk of 64 MiB."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to mount a small disk")
    place = tmp_path / "home-0" / "node"
    place.mkdir(parents=True)
    linux.mount("disk", str(place), "tmpfs", 0, "size=64m")
    yield
    linux.unmount(str(place))


@pytest.mark.timeout(360)
def test_a_full_disk_becomes_a_condition_a_taint_and_an_eviction(small_disk: None, laptop: Laptop) -> None:
    world = laptop("--cpus", "4")
    [node] = world.items("nodes")
    name = node["metadata"]["name"]

    def pod(called: str, script: str) -> None:
        body = json.loads(process_pod(called, script, volumes=[{"name": "v", "emptyDir": {}}]))
        body["spec"]["containers"][0]["volumeMounts"] = [{"name": "v", "mountPath": "/v"}]
        world.kubectl("create", "-f", "-", stdin=json.dumps(body))

    def phase(called: str) -> str:
        return str(world.get("pod", called)["status"].get("phase"))

    def condition() -> str:
        return next(c["status"] for c in world.get("node", name)["status"]["conditions"] if c["type"] == "DiskPressure")

    def taints() -> set[tuple[str, str]]:
        return {(taint["key"], taint["effect"]) for taint in world.get("node", name)["spec"].get("taints") or ()}

    assert condition() == "False"
    pod("modest", "head -c 500000 /dev/zero > /v/x; exec sleep 1000")
    eventually(lambda: phase("modest") == "Running", what="the modest pod runs")
    pod("greedy", "head -c 62000000 /dev/zero > /v/x; exec sleep 1000")
    eventually(lambda: condition() == "True", what="the node reports DiskPressure")
    pressed = ("node.kubernetes.io/disk-pressure", "NoSchedule")
    eventually(lambda: pressed in taints(), what="the node is tainted")
    eventually(lambda: phase("greedy") == "Failed", what="the greedy pod is evicted")
    assert world.get("pod", "greedy")["status"]["reason"] == "Evicted"
    assert phase("modest") == "Running"
    pod("late", "true")

    def message() -> str:
        conditions = world.get("pod", "late")["status"].get("conditions") or ()
        return next((c.get("message", "") for c in conditions if c["type"] == "PodScheduled"), "")

    eventually(lambda: "node.kubernetes.io/disk-pressure" in message(), what="a new pod is told why it waits")
    assert phase("late") == "Pending"


@pytest.mark.timeout(360)
def test_deleting_a_pod_stops_its_process(laptop: Laptop) -> None:
    world = laptop("--cpus", "4")
    world.kubectl("create", "-f", "-", stdin=process_pod("endless", "exec sleep 424242"))
    eventually(lambda: world.get("pod", "endless")["status"].get("phase") == "Running", what="pod runs")
    eventually(lambda: is_running("sleep", "424242"), what="its process is there")  # a shell becomes it
    world.kubectl("delete", "pod", "endless", "--grace-period=1")
    assert not is_running("sleep", "424242")


def is_running(*words: str) -> bool:
    """Tell whether a process of this command line is on the machine."""

    def command_line(path: Path) -> bytes:
        try:
            return path.read_bytes()
        except OSError:  # it has just gone
            return b""

    return any(command_line(path) == "\0".join((*words, "")).encode() for path in Path("/proc").glob("[0-9]*/cmdline"))


@pytest.mark.timeout(360)
def test_an_unknown_image_runs_on_the_host_by_option_and_says_so(laptop: Laptop) -> None:
    world = laptop("--cpus", "4", "--no-strict-images")
    substituted = process_pod("borrowed", "echo ran").replace("strato/host", "busybox:1.36")
    world.kubectl("create", "-f", "-", stdin=substituted)
    eventually(lambda: world.get("pod", "borrowed")["status"].get("phase") == "Succeeded", what="pod ran")
    eventually(lambda: "ImageSubstituted" in world.kubectl("get", "events"), what="the event")
    assert "busybox:1.36" in world.own("status")
    for image, command, said in (
        ("busybox:1.36", "echo ran", "run on this machine's own root (strato/host, read-only)"),
        ("strato/host", "echo ran", ""),
    ):
        words = ["job", "run", "-N", f"j-{len(said)}", "-i", image, *(["-c", command] if command else [])]
        done = subprocess.run(
            [*STRATO, "--home", str(world.home), *words], text=True, capture_output=True, timeout=60, check=True
        )
        assert said in done.stderr if said else not done.stderr, done.stderr
    missing = (
        process_pod("missing", "true")
        .replace("strato/host", "registry.invalid/none")
        .replace('"sh"', '"/no/such/program"')
    )
    world.kubectl("create", "-f", "-", stdin=missing)
    eventually(lambda: "ImagePullBackOff" in world.kubectl("get", "pod", "missing"), what="ImagePullBackOff")


@pytest.mark.timeout(360)
def test_an_image_is_never_silently_this_machines_root(laptop: Laptop) -> None:
    """Unless it says so: by its name, or by none at all."""
    world = laptop("--cpus", "4")
    absent = process_pod("absent", "echo ran").replace("strato/host", "registry.invalid/busybox")
    world.kubectl("create", "-f", "-", stdin=absent)
    world.kubectl("create", "-f", "-", stdin=process_pod("named", "echo ran"))
    world.own("job", "run", "-N", "unnamed", "-R", "cpu=100m,memory=32Mi", "--wait", "--", "true")
    eventually(lambda: world.get("pod", "named")["status"].get("phase") == "Succeeded", what="pod ran")
    eventually(lambda: "ImagePullBackOff" in world.kubectl("get", "pod", "absent"), what="ImagePullBackOff")
    waiting = world.get("pod", "absent")["status"]["containerStatuses"][0]["state"]["waiting"]
    assert "name strato/host, or start the node with --no-strict-images" in waiting["message"]


@pytest.mark.timeout(360)
def test_running_pods_survive_kill_9_of_the_cluster(laptop: Laptop, tmp_path: Path) -> None:
    """The same processes go on while nobody looks after them; what ended meanwhile is told afterwards."""
    world = laptop("--cpus", "4")
    go = tmp_path / "go"
    volumes = [{"name": "host", "hostPath": {"path": str(tmp_path)}}]
    for name, script in (
        ("long", "echo $$$$ begun; until [ -e /host/go ]; do sleep 0.1; done; echo $$$$ ended"),
        ("short", "touch /host/short-runs; until [ -e /host/short-go ]; do sleep 0.1; done; exit 5"),
    ):
        pod = json.loads(process_pod(name, script, volumes=volumes))
        pod["spec"]["containers"][0]["volumeMounts"] = [{"name": "host", "mountPath": "/host"}]
        world.kubectl("create", "-f", "-", stdin=json.dumps(pod))
    eventually(lambda: "begun" in world.kubectl("logs", "long", check=False), what="the long pod runs")
    eventually((tmp_path / "short-runs").exists, what="the short pod runs")
    world.kill()
    (tmp_path / "short-go").touch()
    world.own("up", *world.options, "--port", str(_port_of(world)))
    eventually(lambda: world.get("pod", "short")["status"].get("phase") == "Failed", what="the short pod's end is told")
    state = world.get("pod", "short")["status"]["containerStatuses"][0]["state"]["terminated"]
    assert state["exitCode"] == 5
    assert world.get("pod", "long")["status"]["phase"] == "Running"
    go.touch()
    eventually(lambda: world.get("pod", "long")["status"].get("phase") == "Succeeded", what="the long pod ends")
    begun, ended = world.kubectl("logs", "long").split()[::2]
    assert begun == ended
    assert world.get("pod", "long")["status"]["containerStatuses"][0]["restartCount"] == 0


@pytest.mark.timeout(800)
def test_distributed_compilation_with_distcc(laptop: Laptop, tmp_path: Path) -> None:
    if shutil.which("distcc") is None or shutil.which("gcc") is None:
        pytest.skip("distcc or gcc is not installed; on Debian: apt-get install distcc gcc")
    source = Path("/tmp/strato-distcc")  # named in the manifest
    shutil.rmtree(source, ignore_errors=True)
    source.mkdir()
    try:
        subprocess.run(
            [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"]
            + ["--dest", str(tmp_path), "zstandard==0.23.0"],
            check=True,
        )
        with tarfile.open(next(tmp_path.glob("zstandard-*.tar.gz"))) as archive:
            archive.extraction_filter = lambda member, _: member  # Debian 12's Python has no filters to name
            archive.extractall(tmp_path)
        shutil.copytree(next(tmp_path.glob("zstandard-*/zstd")), source / "c")
        shutil.copy(EXAMPLES / "distcc" / "build.sh", source)
        world = laptop("--cpus", "4")
        world.kubectl("apply", "-f", str(EXAMPLES / "distcc" / "job.yaml"))
        world.own("job", "wait", "distcc", "--timeout", "300")
        log = world.kubectl("logs", "distcc-master-0")
        assert "linked" in log
        assert (source / "out" / "library.so").exists()
        workers = [pod for pod in world.items("pods") if "-worker-" in pod["metadata"]["name"]]
        assert len(workers) in (0, 10)
    finally:
        shutil.rmtree(source, ignore_errors=True)


@pytest.mark.timeout(5400)
def test_kill_9_again_and_again_loses_nothing(laptop: Laptop) -> None:
    """Every acknowledged object is there after each crash, and every job still completes.

    Most crashes hit a cluster that serves, one in five hits it while it comes back from the one before.
    """
    world = laptop("--no-sandbox", "--hollow-nodes", "4", "--cpu", "16", "--memory", "64Gi")
    chance = random.Random(20261121)
    acknowledged: list[str] = []
    stop = threading.Event()

    def load() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            job = vcjob(f"load-{number}", replicas=2, seconds=0.2)
            done = world.kubectl_process("create", "-f", "-", stdin=json.dumps(job), check=False)
            acknowledged.extend(re.findall(r"job\.batch\.volcano\.sh/(\S+) created", done.stdout))

    loader = threading.Thread(target=load)
    loader.start()
    options = (*world.options, "--port", str(_port_of(world)))
    kills = starts = 0
    try:
        while kills < rounds(100):
            stop.wait(chance.uniform(0.02, 0.5))
            world.kill()
            kills, starts = kills + 1, starts + 1
            while chance.random() < 0.2:
                world.kill_while_it_starts(*options, after_seconds=chance.uniform(0, 2))
                kills += 1
            world.own("up", *options)
            promised = list(acknowledged)  # before reading: the load goes on meanwhile
            kept = set(world.kubectl("get", "vcjob", "-o", "name").split())
            lost = [name for name in promised if f"job.batch.volcano.sh/{name}" not in kept]
            assert not lost, f"acknowledged and lost: {lost}"
    finally:
        stop.set()
        loader.join()
    assert len(acknowledged) >= starts  # the load went on between the crashes

    def unfinished() -> list[str]:
        return [
            f"{job['metadata']['name']}: {job.get('status', {}).get('state', {}).get('phase')}"
            for job in world.items("vcjob")
            if job.get("status", {}).get("state", {}).get("phase") != "Completed"
        ]

    eventually(lambda: not unfinished(), timeout=400, what="every job completes", every=1)


def _port_of(world: EmbeddedWorld) -> int:
    return int(re.search(r"server: https://[^:]+:(\d+)", world.kubeconfig.read_text()).group(1))  # type: ignore[union-attr]  # it is one


@pytest.mark.timeout(240)
def test_two_processes_are_one_cluster(laptop: Laptop) -> None:
    """The API server has a process of its own; it starts the other one again, but not for ever."""
    world = laptop("--no-sandbox", "--hollow-nodes", "2", "--processes", "2")
    server, parts = world.processes
    metrics = world.kubectl("get", "--raw", "/metrics")
    assert "apiserver_request_total" in metrics
    assert "volcano_e2e_scheduling_latency_milliseconds" in metrics
    families = re.findall(r"^# TYPE (\S+)", metrics, re.MULTILINE)
    assert len(families) == len(set(families))
    os.kill(parts, signal.SIGTERM)  # as a terminal's hang-up of the whole group would; the server decides
    assert world.kubectl("get", "nodes", "-o", "name").count("node/") == 2
    os.kill(parts, signal.SIGKILL)
    submit(world, "default", vcjob("after", replicas=2))
    eventually(lambda: world.job_phase("after") == "Completed", what="the job runs when the parts have come again")
    assert "nodes ended with status -9; it is started again" in world.log.read_text()
    killed = {parts}

    def kill_those_that_come() -> bool:
        with contextlib.suppress(OSError):  # gone between two looks
            for pid in {*world.processes[1:]} - killed:
                os.kill(pid, signal.SIGKILL)
                killed.add(pid)
        return not alive(server)

    eventually(kill_those_that_come, what="the server ends without its parts")
    assert len(killed) == 6
    world.own("up", *world.options, "--port", "0")
    assert len(world.processes) == 2
    processes = world.processes
    world.own("down")
    eventually(lambda: not any(map(alive, processes)), what=f"processes {processes} are gone")
    world.own("up", *world.options, "--port", "0", "--processes", "1")
    assert world.processes == [world.pid]


@pytest.mark.timeout(240)
def test_a_viewer_may_look_but_not_touch(laptop: Laptop) -> None:
    world = laptop("--no-sandbox", "--hollow-nodes", "1")
    viewer = ["--kubeconfig", str(world.home / "kubeconfig.view")]
    assert "hollow-0" in world.kubectl(*viewer, "get", "nodes")
    done = world.kubectl_process(*viewer, "create", "namespace", "x", check=False)
    assert done.returncode != 0
    assert 'User "strato:view" cannot create resource "namespaces"' in done.stderr


@pytest.mark.timeout(1200)
def test_a_thousand_nodes_and_twenty_thousand_pods_do_not_leak(laptop: Laptop) -> None:
    world = laptop("--no-sandbox", "--hollow-nodes", "1000", "--cpu", "32", "--memory", "256Gi")

    def resident_mib() -> int:
        statuses = [Path(f"/proc/{pid}/status").read_text() for pid in world.processes]
        return sum(int(re.search(r"VmRSS:\s+(\d+)", text).group(1)) for text in statuses) // 1024  # type: ignore[union-attr]  # it is one

    def descriptors() -> int:
        return sum(len(list(Path(f"/proc/{pid}/fd").iterdir())) for pid in world.processes)

    def one_round(name: str) -> None:
        jobs = [vcjob(f"{name}-{number}", replicas=100, seconds=0.1) for number in range(50)]
        world.kubectl("create", "-f", "-", stdin="\n".join(json.dumps(job) for job in jobs))
        eventually(
            lambda: world.kubectl("get", "vcjob", "--no-headers").count("Completed") == 50,
            timeout=300,
            what="50 jobs of 100 pods complete",
            every=1,
        )
        world.kubectl("delete", "vcjob", "--all", "--timeout=300s")
        eventually(
            lambda: world.kubectl("get", "pods", "-o", "name", "--chunk-size=0") == "",
            timeout=300,
            what="no pod is left",
            every=1,
        )

    one_round("first")
    memory, files = resident_mib(), descriptors()
    for number in range(3):
        one_round(f"round-{number}")
    assert descriptors() <= files + 8
    assert resident_mib() <= memory * 1.35 + 32
