"""Every component as a real process: it serves health and metrics, one of several leads, SIGTERM ends it with status 0.

The first part runs on the embedded API server (itself such a process), the second one the same on a real control plane.
"""

from __future__ import annotations

import base64
import json
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from strato.pki import Authority
from tests.e2e.test_components import leader, leads
from tests.e2e.test_jobs import pods_of, submit, vcjob
from tests.e2e.worlds import STRATO, KubeWorld, PartsWorld, SplitWorld, World, eventually, free_port

NODES = ("--hollow-nodes", "2", "--cpu", "4", "--memory", "16Gi")


def fetch(address: str, path: str, context: ssl.SSLContext | None = None) -> tuple[int, str]:
    """Return status and text of an answer; status 0 when nobody answers."""
    try:
        with urllib.request.urlopen(f"{address}{path}", timeout=60, context=context) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""


def is_healthy(address: str) -> None:
    eventually(lambda: fetch(address, "/healthz") == (200, "ok"), what=f"{address} is healthy")


def served() -> tuple[tuple[str, ...], str, str]:
    """Return the options that serve metrics and health apart, and both addresses."""
    metrics, health = free_port(), free_port()
    options = ("--listen-address", f"127.0.0.1:{metrics}", "--enable-healthz=true")
    options = (*options, "--healthz-address", f"127.0.0.1:{health}", "--leader-elect-retry-period", "200ms")
    return options, f"http://127.0.0.1:{metrics}", f"http://127.0.0.1:{health}"


@pytest.fixture
def split(tmp_path: Path) -> Iterator[SplitWorld]:
    """Return an API server as a process of its own, and nothing else yet."""
    world = SplitWorld(tmp_path)
    try:
        world.start_server()
        yield world
    finally:
        world.stop()


def run_all(world: PartsWorld, name: str = "all", *options: str, webhook_port: int = 0) -> None:
    port = webhook_port or free_port()
    url = ("--webhook-url", f"https://127.0.0.1:{port}", "--port", str(port))
    world.start_part("all", *url, *options, name=name)


@pytest.mark.e2e
@pytest.mark.embedded
@pytest.mark.timeout(400)
def test_api_server_nodes_and_all_the_rest_are_three_processes(split: SplitWorld) -> None:
    """Together they finish a job; each is healthy, counts, and stops when it is asked to."""
    node_options, node_metrics, node_health = served()
    all_options, all_metrics, all_health = served()
    split.start_part("node", *NODES, *node_options)
    run_all(split, "all", *all_options)
    for address in (node_metrics, node_health, all_metrics, all_health):
        is_healthy(address)
    eventually(lambda: split.get("queue", "default"), what="the scheduler has made its queues")
    submit(split, "default", vcjob("first", replicas=4))
    eventually(lambda: split.job_phase("first") == "Completed", what="job is Completed")
    assert {pod["spec"]["nodeName"] for pod in pods_of(split, "default", "first")} <= {"hollow-0", "hollow-1"}
    _, text = fetch(all_metrics, "/metrics")
    for series in (
        "volcano_e2e_scheduling_latency_milliseconds_count",
        "volcano_queue_weight",
        "process_resident_memory_bytes",
    ):
        assert series in text, series
    assert fetch(all_health, "/metrics")[0] == 404
    for lease in ("volcano", "vc-controller-manager"):
        assert leader(split, lease) == str(split.processes["all"].pid)
    for part in ("all", "node", "apiserver"):
        assert split.stop_part(part) == 0, split.log(part)
        assert "Traceback" not in split.log(part)
    assert leaders_given_back(split)


def leaders_given_back(split: SplitWorld) -> bool:
    """Start the server again on its journal: the leases of what has stopped are nobody's."""
    (split.home / "ready.json").unlink(missing_ok=True)
    split.start_server()
    return [leader(split, lease) for lease in ("volcano", "vc-controller-manager")] == ["", ""]


@pytest.mark.e2e
@pytest.mark.embedded
@pytest.mark.timeout(400)
def test_this_machine_joins_a_cluster_as_a_node_of_its_own_process(split: SplitWorld, tmp_path: Path) -> None:
    """Pods run here as real processes, which a node that is killed and comes back finds again; logs are read too."""
    node = ("--sandbox", "--cpus", "4", "--data-dir", str(split.home / "node"))
    try:
        for part in ("scheduler", "controllers"):
            split.start_part(part)
        split.start_part("node", *node)
        eventually(lambda: split.get("queue", "default"), what="the scheduler has made its queues")
        job = vcjob("real", replicas=2)
        container = job["spec"]["tasks"][0]["template"]["spec"]["containers"][0]
        container |= {"image": "strato/host", "volumeMounts": [{"name": "host", "mountPath": "/host"}]}
        container["command"] = ["sh", "-c", "echo begun as $$; until [ -e /host/go ]; do sleep 0.1; done; echo done"]
        job["spec"]["tasks"][0]["template"]["spec"]["volumes"] = [{"name": "host", "hostPath": {"path": str(tmp_path)}}]
        submit(split, "default", job)
        eventually(lambda: split.job_phase("real") == "Running", what="job is Running")
        here = socket.gethostname().lower()  # whose identity the server's home holds
        assert {pod["spec"]["nodeName"] for pod in pods_of(split, "default", "real")} == {here}
        name = pods_of(split, "default", "real")[0]["metadata"]["name"]
        begun = eventually(lambda: split.kubectl("logs", name), what="it has said something")
        split.kill_part("node")
        split.start_part("node", *node)
        (tmp_path / "go").touch()
        eventually(lambda: split.job_phase("real") == "Completed", what="job is Completed")
        assert split.kubectl("logs", name) == f"{begun}done\n"
        restarts = [pod["status"]["containerStatuses"][0]["restartCount"] for pod in pods_of(split, "default", "real")]
        assert restarts == [0, 0]
        assert split.stop_part("node") == 0, split.log("node")
        assert "Traceback" not in split.log("node")
    finally:
        split.stop()
        subprocess.run([*STRATO, "--home", str(split.home), "down"], check=True, capture_output=True, timeout=240)


@pytest.mark.e2e
@pytest.mark.embedded
@pytest.mark.timeout(300)
def test_the_api_server_alone_serves_health_and_metrics_and_keeps_what_it_was_given(split: SplitWorld) -> None:
    address = json.loads((split.home / "ready.json").read_text())["address"]
    context = ssl.create_default_context(cafile=str(split.home / "pki" / "ca.crt"))
    for path in ("/healthz", "/readyz", "/livez"):
        assert fetch(address, path, context)[0] == 200, path
    assert split.kubectl("get", "--raw", "/metrics").count("apiserver_request") > 0
    second = subprocess.run(
        [*STRATO, "--home", str(split.home), "run", "apiserver", "--port", "0"],
        text=True,
        capture_output=True,
        timeout=240,
        check=False,
    )
    assert second.returncode == 2
    assert "already runs" in second.stderr
    split.kubectl("create", "configmap", "kept", "--from-literal=a=b")
    assert split.stop_part("apiserver") == 0, split.log("apiserver")
    split.start_server()
    assert split.get("configmap", "kept")["data"] == {"a": "b"}


@pytest.mark.e2e
@pytest.mark.embedded
@pytest.mark.timeout(400)
def test_of_two_processes_with_everything_one_leads_until_it_stops(split: SplitWorld) -> None:
    """The lease would last for minutes: only its release lets the other in."""
    split.start_part("node", *NODES)
    run_all(split, "one", "--leader-elect-lease-duration", "300s", "--leader-elect-renew-deadline", "200s")
    for lease in ("volcano", "vc-controller-manager"):
        _leads(split, "one", lease)
    options, metrics, _ = served()
    run_all(split, "two", *options)
    is_healthy(metrics)  # a follower is healthy
    assert split.stop_part("one") == 0, split.log("one")
    for lease in ("volcano", "vc-controller-manager"):
        _leads(split, "two", lease)
    submit(split, "default", vcjob("after", replicas=2))
    eventually(lambda: split.job_phase("after") == "Completed", what="job is Completed")


@pytest.mark.e2e
@pytest.mark.embedded
@pytest.mark.timeout(300)
def test_a_process_that_lost_its_lease_ends(split: SplitWorld) -> None:
    """Going on would be two leaders: somebody starts it again, and it waits for its turn."""
    options, _, health = served()
    split.start_part("controllers", *options)
    is_healthy(health)
    _leads(split, "controllers", "vc-controller-manager")
    patch = {"spec": {"holderIdentity": "thief", "leaseDurationSeconds": 600}}
    split.kubectl(
        "patch", "lease", "vc-controller-manager", "-n", "volcano-system", "--type=merge", "-p", json.dumps(patch)
    )
    assert split.processes.pop("controllers").wait(timeout=120) == 1
    assert "error: " in split.log("controllers")
    assert "volcano-system/vc-controller-manager" in split.log("controllers").splitlines()[-1]
    assert "Traceback" not in split.log("controllers")


def _leads(world: PartsWorld, name: str, lease: str) -> None:
    pid = str(world.processes[name].pid)
    eventually(lambda: leader(world, lease) == pid, what=f"{name} ({pid}) leads by {lease}", every=0.2)


@pytest.mark.e2e
@pytest.mark.embedded
@pytest.mark.timeout(400)
def test_the_arguments_of_volcanos_manifests_start_our_components(split: SplitWorld, tmp_path: Path) -> None:
    """Word for word but for ports, which are this test's own; what has no meaning is told about once."""
    from tests.cli.test_volcano_flags import VOLCANOS

    config = tmp_path / "volcano-scheduler.conf"
    config.write_text('actions: "enqueue, allocate, backfill"\ntiers:\n- plugins:\n  - name: gang\n')
    split.start_part("node", *NODES)
    addresses = {}
    for part in ("scheduler", "controllers"):
        words = [word for word in VOLCANOS[part] if not word.startswith("--scheduler-conf")]
        words += [f"--scheduler-conf={config}"] if part == "scheduler" else []
        port, health = free_port(), free_port()
        addresses[part] = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{health}"
        split.start_part(part, *words, f"--listen-address=:{port}", f"--healthz-address=:{health}")
    for part, (metrics, health_address) in addresses.items():
        is_healthy(metrics)
        is_healthy(health_address)
        assert split.log(part).count("flag --kube-api-qps has no effect") == 1
    eventually(lambda: split.get("queue", "default"), what="the scheduler has made its queues")
    assert split.get("lease", "volcano", "-n", "volcano-system") is None  # --leader-elect=false
    submit(split, "default", vcjob("theirs", replicas=2))
    eventually(lambda: split.job_phase("theirs") == "Completed", what="job is Completed")
    for part in ("scheduler", "controllers"):
        assert split.stop_part(part) == 0, split.log(part)


@pytest.mark.e2e
@pytest.mark.embedded
@pytest.mark.timeout(300)
def test_the_arguments_of_volcanos_webhook_start_ours(split: SplitWorld, tmp_path: Path) -> None:
    """Certificates from files, HTTPS at --listen-address and --port, health on a port of its own."""
    from tests.cli.test_volcano_flags import VOLCANOS

    now = time.time()
    authority = Authority.make("test", now_seconds=now, days=1)
    issued = authority.server("webhook", ["127.0.0.1"], now_seconds=now, days=1)
    files = {"tls.crt": issued.certificate, "tls.key": issued.private_key, "ca.crt": authority.pair.certificate}
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "volcano-admission.conf").write_text("resourceGroups: []\n")
    port, health = free_port(), free_port()
    words = [
        word.replace("/admission.local.config/certificates", str(tmp_path)).replace("/conf/", f"{tmp_path}/")
        for word in VOLCANOS["webhook"]
    ]
    words = [word.replace("--port=8443", f"--port={port}").replace("0.0.0.0", "127.0.0.1") for word in words]
    split.start_part("webhook", *words, f"--healthz-address=:{health}")
    is_healthy(f"http://127.0.0.1:{health}")
    context = ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))
    eventually(lambda: fetch(f"https://127.0.0.1:{port}", "/readyz", context)[0] == 200, what="HTTPS is served")
    hooks = "validatingwebhookconfiguration", "volcano-admission-service-jobs-validate"
    eventually(lambda: split.get(*hooks), what="the configurations are written")
    client = split.get(*hooks)["webhooks"][0]["clientConfig"]
    assert client["service"]["name"] == "volcano-admission-service"
    assert base64.b64decode(client["caBundle"]) == files["ca.crt"]
    assert split.stop_part("webhook") == 0, split.log("webhook")


IMPOSSIBLE: list[Any] = [
    pytest.param(("scheduler", "--listen-address", "nowhere"), "write host:port", id="no address"),
    pytest.param(("node", "--cpu", "much"), "write for example 4, 500m", id="no quantity"),
    pytest.param(("node", "--hollow-nodes", "0"), "no nodes: give --sandbox or --hollow-nodes N", id="no nodes"),
    pytest.param(("controllers", "--controllers", "x"), "unknown controller 'x'; known are", id="no controller"),
    pytest.param(("webhook",), "say how the API server finds this webhook", id="no address of the webhook"),
    pytest.param(("webhook", "--webhook-url", "http://x"), "API servers call https://", id="no https"),
    pytest.param(("scheduler", "--scheduler-conf", "/no/file"), "/no/file", id="no configuration"),
    pytest.param(("scheduler", "--disable-default-scheduler-config"), "give --scheduler-conf", id="no default"),
    pytest.param(("scheduler", "--tls-cert-file", "x"), "go together", id="a certificate without its key"),
    pytest.param(("scheduler", "--leader-elect=perhaps"), "not a valid boolean", id="no boolean"),
    pytest.param(("scheduler", "--no-such-flag"), "No such option", id="no flag"),
]


@pytest.mark.e2e
@pytest.mark.embedded
@pytest.mark.timeout(120)
@pytest.mark.parametrize(("words", "message"), IMPOSSIBLE)
def test_what_cannot_be_done_is_said_at_once_with_status_2(
    split_home: Path, words: tuple[str, ...], message: str
) -> None:
    done = subprocess.run(
        [*STRATO, "-k", str(split_home), "run", *words], text=True, capture_output=True, timeout=100, check=False
    )
    assert (done.returncode, "Traceback" in done.stderr) == (2, False), done.stderr
    assert message in done.stderr


@pytest.fixture(scope="module")
def split_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return the kubeconfig of an API server that several tests share."""
    world = SplitWorld(tmp_path_factory.mktemp("split"))
    try:
        world.start_server()
        yield world.kubeconfig
    finally:
        world.stop()


@pytest.fixture
def bare(world: World) -> Iterator[KubeWorld]:
    """Return the real control plane without our scheduler, controllers and webhook; they are back afterwards."""
    if not isinstance(world, KubeWorld):
        pytest.skip("needs components that are processes of their own on a real control plane")
    parts = ("scheduler", "controllers", "webhook")
    for part in parts:
        assert world.stop_part(part) == 0, world.log(part)
    yield world
    for name in [name for name in world.processes if name.startswith("all")]:
        assert world.stop_part(name) == 0, world.log(name)
    for part in ("scheduler", "controllers"):
        world.start_part(part)
    world.start_webhook()


@pytest.mark.kube
@pytest.mark.timeout(400)
def test_one_process_is_scheduler_controllers_and_webhook(bare: KubeWorld, namespace: str) -> None:
    options, metrics, health = served()
    run_all(bare, "all", *options, webhook_port=bare.webhook_port)
    is_healthy(metrics)
    is_healthy(health)
    for lease in ("volcano", "vc-controller-manager"):
        leads(bare, "all", lease)
    wrong = vcjob("wrong", replicas=2)
    wrong["spec"]["queue"] = "nobody"  # the definitions judge the rest, webhook or not

    def refused() -> bool:
        done = bare.kubectl_process("create", "-n", namespace, "-f", "-", stdin=json.dumps(wrong), check=False)
        return "unable to find job queue" in done.stderr

    eventually(refused, what="the webhook judges jobs")
    submit(bare, namespace, vcjob("right", replicas=2))
    eventually(lambda: bare.job_phase("right", namespace) == "Completed", what="job is Completed")
    assert "volcano_e2e_scheduling_latency_milliseconds_count" in fetch(metrics, "/metrics")[1]
    assert bare.stop_part("all") == 0, bare.log("all")
    for lease in ("volcano", "vc-controller-manager"):
        assert leader(bare, lease) == ""


@pytest.mark.kube
@pytest.mark.timeout(300)
def test_a_foreign_api_server_reads_the_logs_of_this_machine(world: World, namespace: str, tmp_path: Path) -> None:
    """``kubectl logs`` as with a kubelet: the API server asks the node, with its certificate."""
    if not isinstance(world, KubeWorld):
        pytest.skip("needs a real API server whose certificate for nodes we know")
    port, home = free_port(), tmp_path / "home"
    node = ("--sandbox", "--name", "machine", "--cpus", "1", "--data-dir", str(home / "node"))
    world.start_part(
        "node", *node, "--kubelet-port", str(port), "--client-ca-file", str(world.client_ca), name="machine"
    )
    try:
        eventually(lambda: world.get("node", "machine"), what="the node is there")
        script = "echo begun; until [ -e /host/go ]; do sleep 0.1; done; echo done"
        container = {"name": "main", "image": "strato/host", "command": ["sh", "-c", script]}
        container |= {"volumeMounts": [{"name": "host", "mountPath": "/host"}]}
        spec = {"nodeName": "machine", "restartPolicy": "Never", "terminationGracePeriodSeconds": 0}
        spec |= {"containers": [container], "volumes": [{"name": "host", "hostPath": {"path": str(tmp_path)}}]}
        world.kubectl("create", "-n", namespace, "-f", "-", stdin=json.dumps(
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "talker"}, "spec": spec}
        ))  # fmt: skip
        logs = ("logs", "-n", namespace, "talker")
        eventually(lambda: world.kubectl_process(*logs, check=False).stdout == "begun\n", what="it has said something")
        assert world.strato(*logs) == "begun\n"
        refused = world.kubectl_process(*logs, "--previous", check=False)
        assert 'previous terminated container "main" in pod "talker" not found' in refused.stderr
        (tmp_path / "go").touch()
        assert world.kubectl(*logs, "--follow") == "begun\ndone\n"
        assert world.kubectl(*logs, "--tail=1") == "done\n"
        world.kubectl("delete", "pod", "talker", "-n", namespace)
        assert world.stop_part("machine") == 0, world.log("machine")
        assert "Traceback" not in world.log("machine")
    finally:
        if "machine" in world.processes:
            world.stop_part("machine")
        subprocess.run([*STRATO, "--home", str(home), "down"], check=True, capture_output=True, timeout=240)
        world.kubectl("delete", "node", "machine", "--ignore-not-found")
