"""What ``strato doctor`` says of machines and clusters, by tables over facts; and of this machine, typed."""

from __future__ import annotations

import copy
import http.server
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from strato.api.crds import manifests
from strato.cli.diagnosis import cluster, machine
from strato.cli.diagnosis.cluster import ClusterFacts, LeaseFacts, WebhookFacts
from strato.cli.diagnosis.findings import CheckResult, Status
from strato.cli.diagnosis.machine import FreeSpace, Listener, MachineFacts
from strato.cli.diagnosis.probe import listener
from strato.cli.doctor import as_json, as_text

NOW = 1_800_000_000.0
DAY = 86400.0
GOOD_MACHINE = MachineFacts(
    python="3.13.0",
    strato="0.1.0",
    kubectl="v1.36.0",
    rooms=(FreeSpace(Path("/data"), 1 << 40),),
    is_clock_kept=True,
    has_systemd=True,
)
MACHINES: list[Any] = [
    pytest.param({"isolation": "user", "user": "ada"}, "privileges", "ok", "", id="an ordinary user with namespaces"),
    pytest.param(
        {"isolation": "plain", "user": "ada", "forbidding": "user.max_user_namespaces=10000"},
        "privileges",
        "warning",
        "sudo sysctl user.max_user_namespaces=10000",
        id="a setting forbids namespaces",
    ),
    pytest.param(
        {"isolation": "plain", "user": "ada"}, "privileges", "warning", "sudo strato up", id="nothing says why"
    ),
    pytest.param(
        {"cgroups": False, "user": "ada"},
        "cgroups",
        "warning",
        "systemd-run --user --scope -p 'Delegate=cpu memory pids' strato up",
        id="no control group of the user's own",
    ),
    pytest.param(
        {"missing_controllers": ("cpu",), "user": "ada", "has_systemd": False},
        "cgroups",
        "warning",
        "sudo strato up",
        id="one controller was not delegated",
    ),
    pytest.param({"cgroups": False}, "cgroups", "warning", "docker run --privileged", id="root in a container"),
    pytest.param(
        {"egress_problem": "nft is not installed; on Debian: apt-get install nftables"},
        "nftables",
        "warning",
        "apt-get install nftables",
        id="no nft",
    ),
    pytest.param(
        {"egress_problem": "nft refused: Operation not supported"},
        "nftables",
        "warning",
        "--pod-network isolated",
        id="a kernel without nftables",
    ),
    pytest.param(
        {"egress_problem": "this machine has no default route"}, "nftables", "warning", "ip route add", id="no route"
    ),
    pytest.param(
        {"isolation": "user", "user": "ada", "serves_names": False},
        "names",
        "warning",
        "sudo sysctl net.ipv4.ip_unprivileged_port_start=53",
        id="no port for a name server",
    ),
    pytest.param({"isolation": "user", "user": "ada"}, "names", "ok", "", id="a port for a name server"),
    pytest.param({"rooms": (FreeSpace(Path("/data"), 0),)}, "disk", "problem", "du -xh", id="disk full"),
    pytest.param(
        {"rooms": (FreeSpace(Path("/data"), 1 << 40, 3),)}, "disk", "problem", "--inodes", id="no inodes left"
    ),
    pytest.param({"memory_bytes": 1 << 20}, "memory", "warning", "add memory", id="little memory"),
    pytest.param({"open_files": 256}, "open files", "warning", "ulimit -n 65536", id="few open files"),
    pytest.param(
        {"listener": Listener(7, "k3s")}, "port", "problem", "strato up --port 0", id="another server has the port"
    ),
    pytest.param({"listener": Listener()}, "port", "problem", "--port 0", id="another user's server has the port"),
    pytest.param({"is_clock_kept": False}, "clock", "warning", "timedatectl set-ntp true", id="no time service"),
    pytest.param(
        {"newest_write_ahead_seconds": 600.0}, "clock", "problem", "timedatectl", id="the clock was set back 10 min"
    ),
    pytest.param({"is_clock_kept": None}, "clock", "ok", "", id="a kernel that says nothing of its clock"),
    pytest.param({"kubectl": ""}, "kubectl", "warning", "apt-get install kubernetes-client", id="no kubectl"),
]
EXPECTED = {body["metadata"]["name"]: body for body in manifests()}
JOBS = "jobs.batch.volcano.sh"
HOOKS = ("volcano-admission-service-jobs-validate", "volcano-admission-service-queues-validate")


def definitions(**changed: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Return the definitions as a server has them, with the first of a kind changed."""
    found: dict[str, Any] = copy.deepcopy(EXPECTED)
    for plural, change in changed.items():
        change(next(body for body in found.values() if body["spec"]["names"]["plural"] == plural))
    return found


def without_field(body: dict[str, Any]) -> None:
    del version_of(body)["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["minAvailable"]


def without_rules(body: dict[str, Any]) -> None:
    version_of(body)["schema"]["openAPIV3Schema"].pop("x-kubernetes-validations")


def not_served(body: dict[str, Any]) -> None:
    version_of(body)["served"] = False


def deleted(body: dict[str, Any]) -> None:
    body["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"


def name_is_taken(body: dict[str, Any]) -> None:
    condition = {"type": "NamesAccepted", "status": "False", "message": '"vcjob" is already in use'}
    body["status"] = {"conditions": [condition]}


def version_of(body: dict[str, Any]) -> dict[str, Any]:
    version: dict[str, Any] = body["spec"]["versions"][0]
    return version


GOOD_CLUSTER = ClusterFacts(
    address="https://k:6443",
    named_by="--kubeconfig",
    strato="0.1.0",
    kubectl="v1.36.0",
    version="v1.36.3",
    skew_seconds=0.0,
    certificate_ends=NOW + 300 * DAY,
    now=NOW,
    definitions=definitions(),
    expected=EXPECTED,
    webhooks=[WebhookFacts(name, bundle_ends=NOW + 300 * DAY) for name in HOOKS],
    expected_webhooks=HOOKS,
    queues={"default": "Open", "root": "Open"},
    leases={"scheduler": LeaseFacts("a", 1.0, 15.0), "controllers": LeaseFacts("b", 1.0, 15.0)},
)
ONLY_CRDS = "strato install --only crds"
RESTART = "rollout restart deployment volcano-admission"
CLUSTERS: list[Any] = [
    pytest.param({"refusal": "cannot be reached"}, "cluster", "problem", "check --kubeconfig", id="no answer"),
    pytest.param(
        {"version": "v1.36.3+strato0.0.9"}, "server version", "problem", "strato down; strato up", id="an older strato"
    ),
    pytest.param(
        {"version": "v1.29.1-gke.3", "kubectl": "v1.29.0"},
        "server version",
        "warning",
        "upgrade to 1.30",
        id="an old Kubernetes",
    ),
    pytest.param({"kubectl": "v1.20.2"}, "kubectl", "warning", "install kubectl 1.36", id="kubectl of years ago"),
    pytest.param(
        {"certificate_ends": NOW - 1}, "kubeconfig", "problem", "get a new kubeconfig", id="a certificate that ended"
    ),
    pytest.param({"certificate_ends": NOW + DAY}, "kubeconfig", "warning", "before", id="a certificate that ends soon"),
    pytest.param({"skew_seconds": -600.0}, "clock", "problem", "timedatectl set-ntp true", id="clock 10 min off"),
    pytest.param({"skew_seconds": 9.0}, "clock", "warning", "timedatectl set-ntp true", id="clock 9 s off"),
    pytest.param(
        {"definitions": {}}, "definitions", "problem", "strato install", id="a cluster without anything of ours"
    ),
    pytest.param(
        {"definitions": {**definitions(), JOBS: None}}, "definitions", "problem", ONLY_CRDS, id="one CRD is missing"
    ),
    pytest.param(
        {"definitions": definitions(jobs=without_field)},
        "definitions",
        "problem",
        ONLY_CRDS,
        id="CRD of an older version",
    ),
    pytest.param(
        {"definitions": definitions(jobs=without_rules)}, "definitions", "warning", ONLY_CRDS, id="CRD without rules"
    ),
    pytest.param(
        {"definitions": definitions(queues=not_served)}, "definitions", "problem", ONLY_CRDS, id="CRD not served"
    ),
    pytest.param(
        {"definitions": definitions(jobs=deleted)}, "definitions", "problem", "wait until it is gone", id="CRD deleted"
    ),
    pytest.param(
        {"definitions": definitions(jobs=name_is_taken)}, "definitions", "problem", ONLY_CRDS, id="CRD's name taken"
    ),
    pytest.param({"webhooks": []}, "webhooks", "warning", "strato install --only admission", id="no webhook"),
    pytest.param(
        {"webhooks": [WebhookFacts(HOOKS[0], bundle_ends=NOW + 300 * DAY)]},
        "webhooks",
        "warning",
        "strato install --only admission",
        id="a webhook is missing",
    ),
    pytest.param(
        {"webhooks": [WebhookFacts(name, bundle_ends=NOW - DAY) for name in HOOKS]},
        "webhooks",
        "problem",
        RESTART,
        id="webhook's CA expired",
    ),
    pytest.param(
        {"webhooks": [WebhookFacts(name, bundle_ends=NOW + DAY) for name in HOOKS]},
        "webhooks",
        "warning",
        RESTART,
        id="webhook's CA ends soon",
    ),
    pytest.param(
        {"webhooks": [WebhookFacts(name, has_bundle=False) for name in HOOKS]},
        "webhooks",
        "problem",
        RESTART,
        id="webhook never published",
    ),
    pytest.param(
        {"webhooks": [WebhookFacts(name, bundle_ends=None) for name in HOOKS]},
        "webhooks",
        "problem",
        RESTART,
        id="webhook's CA is no certificate",
    ),
    pytest.param(
        {"webhook_error": "failed calling webhook: no endpoints available"},
        "webhooks",
        "problem",
        "get pods,endpoints",
        id="webhook is down",
    ),
    pytest.param({"leases": {}}, "scheduler", "warning", "strato run scheduler", id="nobody ever scheduled"),
    pytest.param(
        {"leases": {"scheduler": LeaseFacts("a", 600.0, 15.0)}}, "scheduler", "problem", "logs", id="scheduler silent"
    ),
    pytest.param(
        {"leases": {"controllers": LeaseFacts("", 0.0, 15.0)}}, "controllers", "problem", "logs", id="lease given up"
    ),
    pytest.param({"queues": {}}, "queues", "problem", "strato queue create -n default", id="no queue default"),
    pytest.param({"queues": {"default": "Closed"}}, "queues", "warning", "-a open", id="queue default closed"),
    pytest.param({"forbidden": ("leases",), "leases": None}, "rights", "warning", "auth can-i", id="few rights"),
]


def worst(found: list[CheckResult], check: str) -> CheckResult:
    (status,) = {max((Status.OK, Status.WARNING, Status.PROBLEM).index(f.status) for f in found if f.check == check)}
    return next(
        f for f in found if f.check == check and f.status is (Status.OK, Status.WARNING, Status.PROBLEM)[status]
    )


def assert_only_that(found: list[CheckResult], check: str, status: str, todo: str) -> None:
    assert worst(found, check).status == status, found
    assert todo in worst(found, check).todo, found
    assert {f.check for f in found if f.status is not Status.OK} <= {check, "controllers", "scheduler"}, found
    for finding in found:
        assert bool(finding.todo) == (finding.status is not Status.OK), finding
        assert "None" not in finding.what + finding.todo


def test_a_sound_machine_and_a_sound_cluster_have_no_findings() -> None:
    for found in (machine.findings(GOOD_MACHINE), cluster.findings(GOOD_CLUSTER)):
        assert [finding for finding in found if finding.status is not Status.OK or finding.todo] == []


@pytest.mark.parametrize(("facts", "check", "status", "todo"), MACHINES)
def test_of_a_machine(facts: dict[str, Any], check: str, status: str, todo: str) -> None:
    assert_only_that(list(machine.findings(replace(GOOD_MACHINE, **facts))), check, status, todo)


@pytest.mark.parametrize(("facts", "check", "status", "todo"), CLUSTERS)
def test_of_a_cluster(facts: dict[str, Any], check: str, status: str, todo: str) -> None:
    assert_only_that(list(cluster.findings(replace(GOOD_CLUSTER, **facts))), check, status, todo)


def test_of_an_old_definition_the_fields_it_drops_are_named() -> None:
    facts = replace(GOOD_CLUSTER, definitions=definitions(jobs=without_field))
    (wrong,) = (finding for finding in cluster.findings(facts) if finding.status is Status.PROBLEM)
    assert wrong.what == f"{JOBS} is of an older version: it drops spec.minAvailable"


@pytest.mark.parametrize(
    ("version", "todo"),
    [
        ("v1.36.3", "strato install --set custom.tfjob_enable=true --set custom.trainjob_enable=true"),
        ("v1.36.3+strato0.1.0", "strato down; strato up --training-kinds=*"),
    ],
)
def test_kinds_that_are_off_are_named_and_are_nothing_wrong(version: str, todo: str) -> None:
    facts = replace(GOOD_CLUSTER, version=version, off=["TFJob", "TrainJob"])
    (found,) = (one for one in cluster.findings(facts) if one.check == "training jobs")
    assert found.status is Status.OK
    assert found.what == f"off: TFJob, TrainJob (kubectl answers: no matches for kind); to have them: {todo}"


def test_both_forms_say_the_same() -> None:
    found = [*machine.findings(replace(GOOD_MACHINE, kubectl=""))]
    body = json.loads(as_json(found))
    assert body["ok"] is True
    assert {"check": "kubectl", "what": "it is not installed", "status": "warning"}.items() <= body["findings"][
        -1
    ].items()
    assert as_text(found).splitlines()[-1].endswith("→ apt-get install kubernetes-client")
    assert json.loads(as_json([*cluster.findings(replace(GOOD_CLUSTER, queues={}))]))["ok"] is False


def test_who_listens_on_a_port_is_found() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        found = listener(server.getsockname()[1])
        assert found is not None
        assert found.pid == os.getpid()
        port = server.getsockname()[1]
    assert listener(port) is None


def typed(home: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "strato", "--home", str(home), *words]
    environment = {key: value for key, value in os.environ.items() if key != "KUBECONFIG"}
    return subprocess.run(
        command, text=True, capture_output=True, check=False, timeout=120, env={**environment, "HOME": str(home), **env}
    )


def test_before_the_first_up_it_speaks_of_the_machine_and_makes_nothing(tmp_path: Path) -> None:
    home = tmp_path / "home"
    done = typed(home, "doctor", "-o", "json")
    assert not done.stderr.strip() or done.returncode == 1
    checks = {finding["check"]: finding for finding in json.loads(done.stdout)["findings"]}
    assert {"version", "privileges", "cgroups", "disk", "port", "clock", "kubectl"} <= set(checks)
    assert "'strato up' starts one" in checks["process"]["what"]
    assert "none is named" in checks["cluster"]["what"]
    assert not home.exists()


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        pytest.param(("-k", "missing", "doctor"), 2, "missing: cannot be read", id="a kubeconfig that is not there"),
        pytest.param(("-s", "ftp://nonsense", "doctor"), 2, "ftp://nonsense", id="no address"),
        pytest.param(
            ("-s", "http://127.0.0.1:1", "doctor"), 1, "cannot be reached: Connection refused", id="nobody listens"
        ),
        pytest.param(("doctor", "--salvage"), 2, "there is no journal", id="nothing to salvage"),
    ],
)
def test_exit_statuses(tmp_path: Path, words: tuple[str, ...], code: int, said: str) -> None:
    done = typed(tmp_path / "home", *words)
    assert done.returncode == code, done.stdout + done.stderr
    assert said in done.stdout + done.stderr
    assert "Errno" not in done.stdout + done.stderr


def test_a_broken_kubeconfig_of_the_environment_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("- not a mapping\n")
    command = [sys.executable, "-P", "-m", "strato", "doctor"]
    env = {**os.environ, "HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path), "KUBECONFIG": str(tmp_path / "config")}
    done = subprocess.run(command, text=True, capture_output=True, check=False, timeout=120, env=env)
    assert done.returncode == 1
    assert "PROBLEM  kubeconfig" in done.stdout
    assert "must be a mapping, not a list" in done.stdout


@pytest.fixture
def foreign_server() -> Iterator[str]:
    """Something that speaks HTTP, is no Kubernetes, and whose clock is an hour behind."""

    class Foreign(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = b"<html>hello</html>"
            self.send_response_only(404)
            self.send_header("Date", self.date_time_string(1_700_000_000))
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Foreign) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_a_server_that_is_no_kubernetes_is_told_about(tmp_path: Path, foreign_server: str) -> None:
    done = typed(tmp_path / "home", "-s", foreign_server, "doctor")
    assert done.returncode == 1
    assert "it is no Kubernetes API" in done.stdout
    assert "Traceback" not in done.stderr


def test_a_certificate_that_a_start_makes_anew_is_not_fetched_from_a_backup(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "pki").mkdir(parents=True, mode=0o700)
    for name in ("ca.crt", "server.crt"):
        (home / "pki" / name).write_text("garbage\n")
    done = typed(home, "doctor", "-o", "json")
    todo = {one["what"]: one["todo"] for one in json.loads(done.stdout)["findings"] if one["check"] == "certificates"}
    pki = home / "pki"
    assert todo == {
        f"{pki}/ca.crt: it is no certificate": (
            f"bring it back: strato restore FILE; or make a new one: rm {pki}/ca.crt {pki}/ca.key"
        ),
        f"{pki}/server.crt: it is no certificate; a start makes a new one": (
            f"strato --home {home} down; strato --home {home} up"
        ),
    }
