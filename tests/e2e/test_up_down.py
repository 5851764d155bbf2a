"""``strato up`` and ``strato down`` from several terminals at once, and with signals at any moment.

What counts is the machine afterwards: one server or none, and nothing left of those that are gone.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from strato.cli.home import Home
from strato.node.sandbox.network import bridge_name
from tests.e2e.worlds import STRATO, EmbeddedWorld, alive, eventually, rounds

pytestmark = [pytest.mark.e2e, pytest.mark.embedded]
SMALL = ("--port", "0", "--no-sandbox", "--hollow-nodes", "1")
MACHINE = ("--port", "0", "--cpus", "4")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[EmbeddedWorld]:
    world = EmbeddedWorld(tmp_path / "home")
    yield world
    world.stop()
    assert_nothing_is_left(world)


def begin(world: EmbeddedWorld, *words: str) -> subprocess.Popen[str]:
    command = [*STRATO, "--home", str(world.home), *words]
    return subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def end(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Wait for a command; return its status and what it said."""
    out, err = process.communicate(timeout=300)
    if "Fatal Python error: init_import_site" in err:  # interrupted before any line of ours, on a busy machine
        return -signal.SIGINT, ""
    assert "Traceback" not in err, err
    return process.returncode, out + err


def processes_of(world: EmbeddedWorld) -> list[str]:
    """Return the command lines that name the home."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if any(str(world.home) in word for word in words) and alive(int(path.parent.name)):
            found.append(" ".join(words))
    return found


def servers_of(world: EmbeddedWorld) -> list[str]:
    return [words for words in processes_of(world) if "--foreground" in words]


def assert_nothing_is_left(world: EmbeddedWorld) -> None:
    eventually(lambda: not processes_of(world), what="no process of the home is left")
    home = Home(world.home)
    assert home.owner() is None
    assert not [path for path in (home.pid_file, home.ready_file, home.stop_file) if path.exists()]
    assert str(world.home) not in Path("/proc/self/mountinfo").read_text()
    bridge = bridge_name(str(home.node))
    assert not Path(f"/sys/class/net/{bridge}").exists()
    # not by a pattern: that fails where a group of another cluster goes meanwhile
    assert not [above for above, groups, _ in os.walk("/sys/fs/cgroup") if bridge in groups]


@pytest.mark.timeout(900)
def test_of_two_starts_in_one_instant_one_serves_and_both_know(world: EmbeddedWorld) -> None:
    for _ in range(rounds(20)):
        starts = [begin(world, "up", *SMALL) for _ in range(2)]
        ends = [end(start) for start in starts]
        assert [code for code, _ in ends] == [0, 0], ends
        address = json.loads((world.home / "ready.json").read_text())["address"]
        assert all(f"cluster is up at {address}" in said for _, said in ends), ends
        assert sum("already runs" in said for _, said in ends) == 1, ends
        assert len(servers_of(world)) == 1
        assert "hollow-0" in world.kubectl("get", "nodes")
        assert "cluster is down" in world.own("down")
        assert_nothing_is_left(world)


@pytest.mark.timeout(300)
def test_a_start_with_other_options_says_who_runs(world: EmbeddedWorld) -> None:
    first = begin(world, "up", *SMALL)
    eventually(lambda: Home(world.home).owner() is not None, what="the first one has the home", every=0.01)
    code, said = end(begin(world, "up", *SMALL, "--in-memory"))
    assert code == 2
    assert f"(--in-memory: False, not True); stop it with 'strato --home {world.home} down'" in said
    assert end(first)[0] == 0
    for words in (("up", *SMALL, "--foreground"), ("run", "apiserver", "--port", "0")):
        code, said = end(begin(world, *words))
        assert code == 2
        assert f"already runs (process {world.pid})" in said
    assert len(servers_of(world)) == 1


@pytest.mark.timeout(900)
def test_down_at_any_moment_of_a_start_ends_it(world: EmbeddedWorld) -> None:
    chance = random.Random(7)
    for _ in range(rounds(12)):
        starting = begin(world, "up", *MACHINE)
        time.sleep(chance.uniform(0.0, 4.0))
        said = world.own("down")
        code, told = end(starting)
        assert "cluster is down" in said or "no cluster runs" in said
        if "no cluster runs" in said:  # the start had not even begun
            world.own("down")
        else:
            assert code == 0 or "stopped" in told, told
        assert_nothing_is_left(world)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("how", ["background", "foreground"])
def test_a_signal_at_any_moment_of_a_start_leaves_nothing(world: EmbeddedWorld, how: str) -> None:
    chance = random.Random(8)
    options = ["--foreground"] if how == "foreground" else []
    for number in range(rounds(12)):
        starting = begin(world, "up", *MACHINE, *options)
        time.sleep(chance.uniform(0.0, 4.0))
        starting.send_signal(signal.SIGINT if number % 2 else signal.SIGTERM)
        code, said = end(starting)
        if "cluster is up" in said and not options:
            assert code == 0  # it was over before
            world.own("down")
        assert_nothing_is_left(world)
        if code not in (0, -signal.SIGTERM) and said:  # not before the first line of ours
            assert code in (130, 143), said
            assert "interrupted" in said, said


@pytest.mark.timeout(600)
def test_after_kill_9_the_next_start_finds_a_free_home_and_the_log(world: EmbeddedWorld) -> None:
    for _ in range(3):
        world.own("up", *SMALL)
        killed = world.pid
        world.kill()
        eventually(lambda: Home(world.home).owner() is None, what="the lock is free with their last thread")
        assert "no cluster runs" in end(begin(world, "status"))[1]
        world.own("up", *SMALL)
        assert world.pid != killed
        assert "random seed" in (world.home / "strato.log.1").read_text()
        world.own("down")


@pytest.mark.timeout(600)
def test_several_terminals_at_once_end_in_one_state(world: EmbeddedWorld) -> None:
    world.own("up", *SMALL)
    downs = [end(down) for down in [begin(world, "down"), begin(world, "down")]]
    assert [code for code, _ in downs] == [0, 0], downs
    assert sorted(said.split(" ")[0] for _, said in downs) in (["cluster", "no"], ["cluster", "cluster"]), downs
    assert_nothing_is_left(world)
    world.own("up", *SMALL)
    stopping = begin(world, "down")
    eventually(lambda: (owner := Home(world.home).owner()) is None or owner.stops, what="it stops", every=0.005)
    code, said = end(begin(world, "up", *SMALL))
    assert (code, "cluster is up at" in said) == (0, True), said
    assert "cluster is down" in end(stopping)[1]
    os.kill(world.pid, signal.SIGTERM)  # as an init system stops it
    eventually(lambda: Home(world.home).owner() is None, what="the server has ended")
    assert_nothing_is_left(world)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_stop_that_is_interrupted_leaves_nothing(world: EmbeddedWorld, how: signal.Signals) -> None:
    home, chance = Home(world.home), random.Random(9)
    for number in range(rounds(8)):
        world.own("up", *SMALL)
        stopping = begin(world, "down", "--keep-pods")
        if number:  # else as soon as it has said how
            time.sleep(chance.uniform(0.2, 0.8))
        else:
            eventually(lambda: home.stop_file.exists() or home.owner() is None, what="it begins", every=0.001)
        stopping.send_signal(how)
        code, said = end(stopping)
        assert code in (0, 130, -how), said
        if code == 130 and (said or not number):  # on a busy machine it may not have begun, and has nothing to say
            assert "interrupted; " in said
        world.own("down")
        assert_nothing_is_left(world)


@pytest.mark.timeout(300)
def test_a_start_goes_on_when_who_began_it_is_killed(world: EmbeddedWorld) -> None:
    starting = begin(world, "up", *SMALL)
    eventually(lambda: len(servers_of(world)) == 1, what="the server is born", every=0.005)
    starting.kill()
    starting.communicate()
    code, said = end(begin(world, "up", *SMALL))
    assert (code, "already runs" in said) == (0, True), said
    assert len(servers_of(world)) == 1


@pytest.mark.timeout(300)
def test_a_start_whose_process_is_killed_says_so(world: EmbeddedWorld) -> None:
    starting = begin(world, "up", *SMALL)
    eventually(lambda: (world.home / "strato.pid").exists(), what="it is born", every=0.005)
    world.kill()
    code, said = end(starting)
    assert code == 1
    assert "the cluster did not start (ended by SIGKILL)" in said
    assert_nothing_is_left(world)


def counting_pod(name: str, place: Path, policy: str) -> dict[str, Any]:
    mounts = [{"name": "host", "mountPath": "/host"}]
    script = f"echo begun; echo x >> /host/{name}; exec sleep 1000"
    container = {"name": "main", "image": "strato/host", "command": ["sh", "-c", script], "volumeMounts": mounts}
    volumes = [{"name": "host", "hostPath": {"path": str(place)}}]
    return {"restartPolicy": policy, "containers": [container], "volumes": volumes, "terminationGracePeriodSeconds": 2}


def deployment(name: str, place: Path) -> str:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": counting_pod(name, place, "Always")}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    return json.dumps({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec})


def job(name: str, place: Path, action: str) -> str:
    task = {"name": "t", "replicas": 1, "template": {"spec": counting_pod(name, place, "Never")}}
    spec = {"minAvailable": 1, "policies": [{"event": "PodFailed", "action": action}], "tasks": [task]}
    kind = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job"}
    return json.dumps({**kind, "metadata": {"name": name}, "spec": spec})


def runs(place: Path, name: str) -> int:
    path = place / name
    return len(path.read_text().split()) if path.exists() else 0


@pytest.mark.timeout(600)
def test_down_shuts_the_node_down_and_no_pod_runs_twice_in_silence(world: EmbeddedWorld, tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    world.own("up", *MACHINE)
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "once"},
        "spec": counting_pod("once", place, "Never"),
    }
    for manifest in (json.dumps(pod), deployment("web", place), job("gang", place, "AbortJob")):
        world.kubectl("create", "-f", "-", stdin=manifest)
    eventually(lambda: all(runs(place, name) == 1 for name in ("once", "web", "gang")), what="all have begun")
    eventually(lambda: world.job_phase("gang") == "Running", what="the job runs")
    said = world.own("down")
    assert "cluster is down; 3 pods were ended (Failed, reason Terminated)" in said
    assert_nothing_is_left(world)
    world.own("up", *MACHINE)
    status = world.get("pod", "once")["status"]
    assert (status["phase"], status["reason"]) == ("Failed", "Terminated")
    assert status["message"] == "Pod was terminated in response to imminent node shutdown."
    assert world.kubectl("logs", "once") == "begun\n"
    eventually(lambda: world.job_phase("gang") == "Aborted", what="the job's policy sees that its pod failed")
    eventually(lambda: runs(place, "web") == 2, what="the deployment has another pod")
    world.own("down", "--keep-pods")
    assert_nothing_is_left(world)
    world.own("up", *MACHINE)
    eventually(lambda: runs(place, "web") == 3, what="the kept pod begins anew")
    assert (runs(place, "once"), runs(place, "gang")) == (1, 1)
    world.kill()
    assert "containers that were left of one are ended: 1" in world.own("down")
    assert_nothing_is_left(world)
    world.own("up", *MACHINE)
    eventually(lambda: runs(place, "web") == 4, what="restart policy Always begins again")
    assert (runs(place, "once"), runs(place, "gang")) == (1, 1)


@pytest.mark.timeout(300)
def test_ctrl_c_ends_a_cluster_in_the_foreground_with_its_pods(world: EmbeddedWorld, tmp_path: Path) -> None:
    serving = begin(world, "up", *MACHINE, "--foreground")
    eventually((world.home / "ready.json").exists, what="it serves")
    spec = counting_pod("once", tmp_path, "Never")
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "once"}, "spec": spec}
    world.kubectl("create", "-f", "-", stdin=json.dumps(pod))
    eventually(lambda: runs(tmp_path, "once") == 1, what="the pod runs")
    eventually(lambda: world.get("pod", "once")["status"].get("phase") == "Running", what="it is told")
    serving.send_signal(signal.SIGINT)
    code, said = end(serving)
    assert code == 0
    assert re.search(r"cluster is up at https://\S+", said)
    assert f"export KUBECONFIG={world.home}/kubeconfig" in said
    assert "cluster is down; 1 pod was ended" in said
    assert_nothing_is_left(world)
    assert os.path.getsize(world.home / "data" / "journal.sqlite")


@pytest.mark.timeout(300)
def test_the_foreground_says_where_it_serves_and_how_to_talk_to_it(world: EmbeddedWorld) -> None:
    command = [*STRATO, "--home", str(world.home), "up", *SMALL, "--foreground"]
    serving = subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert serving.stdout is not None
    assert re.match(r"cluster is up at https://127\.0\.0\.1:\d+\n", serving.stdout.readline())
    assert f"export KUBECONFIG={world.home}/kubeconfig" in serving.stdout.readline()
    assert sorted(q["metadata"]["name"] for q in world.items("queues")) == ["default", "root"]
    serving.send_signal(signal.SIGINT)
    code, said = end(serving)
    assert code == 0, said
    assert "cluster is down" in said
    assert "nft" not in said
