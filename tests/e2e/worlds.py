"""The worlds the end-to-end tests run in: the embedded cluster, and a real Kubernetes control plane.

Both are driven from outside only: real processes, stock kubectl, the ``strato`` command line.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml

from strato.admission.webhook import SERVICES
from strato.pki import Authority

T = TypeVar("T")

STRATO = [sys.executable, "-m", "strato.cli.main"]
CONTROL_PLANE = Path(__file__).parent / "kube" / "controlplane"
CONTROL_PLANE_PROGRAMS = ("kube-controller-manager", "kube-apiserver", "etcd")


def rounds(whole: int) -> int:
    """Return how often a test tries its luck: ``whole`` times in ``make e2e-long``, a quarter of that otherwise."""
    return whole if os.environ.get("STRATO_E2E_LONG") else max(2, whole // 4)


def eventually(probe: Callable[[], T], *, timeout: float = 120.0, what: str = "", every: float = 0.1) -> T:
    """Return the first true answer of ``probe``; the deadline only bounds a failing test."""
    deadline = time.monotonic() + timeout
    while True:
        answer = probe()
        if answer:
            return answer
        assert time.monotonic() < deadline, f"not within {timeout} s: {what or probe}; last answer {answer!r}"
        time.sleep(every)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class World:
    """A running cluster, seen from outside."""

    kubeconfig: Path
    has_our_nodes = True
    """Whether its nodes are four hollow ones of 4 cpus and 16 GiB, and nothing else."""
    is_kubernetes = False
    """Whether Kubernetes' own server and controllers run it."""

    def kubectl(self, *args: str, stdin: str | None = None, check: bool = True) -> str:
        """Run kubectl and return what it printed."""
        return self.kubectl_process(*args, stdin=stdin, check=check).stdout

    def kubectl_process(
        self, *args: str, stdin: str | None = None, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "KUBECONFIG": str(self.kubeconfig)}
        done = subprocess.run(
            ["kubectl", *args], input=stdin, text=True, capture_output=True, env=env, timeout=300, check=False
        )
        assert not check or done.returncode == 0, (
            f"kubectl {' '.join(args)}: {done.returncode}\n{done.stdout}{done.stderr}{self.last_words()}"
        )
        return done

    def last_words(self) -> str:
        """Return the end of the log of a world that is gone."""
        return ""

    def strato(self, *args: str, stdin: str | None = None, check: bool = True) -> str:
        """Run strato against this world and return what it printed."""
        done = subprocess.run(
            [*STRATO, "-k", str(self.kubeconfig), *args],
            input=stdin,
            text=True,
            capture_output=True,
            timeout=300,
            check=False,
        )
        assert not check or done.returncode == 0, (
            f"strato {' '.join(args)}: {done.returncode}\n{done.stdout}{done.stderr}"
        )
        return done.stdout + done.stderr

    def get(self, *args: str) -> Any:
        """Return ``kubectl get … -o json``; None when the object does not exist."""
        done = self.kubectl_process("get", *args, "-o", "json", check=False)
        if done.returncode != 0:
            assert "NotFound" in done.stderr or "not found" in done.stderr, done.stderr + self.last_words()
            return None
        return json.loads(done.stdout)

    def items(self, *args: str) -> list[dict[str, Any]]:
        """Return the items of a list."""
        found: list[dict[str, Any]] = self.get(*args)["items"]
        return found

    def apply(self, manifest: str | dict[str, Any]) -> None:
        """Apply a manifest: YAML text, a file's path or an object."""
        if isinstance(manifest, dict):
            self.kubectl("apply", "-f", "-", stdin=json.dumps(manifest))
        elif "\n" in manifest:
            self.kubectl("apply", "-f", "-", stdin=manifest)
        else:
            self.kubectl("apply", "-f", manifest)

    def job_phase(self, name: str, namespace: str = "default") -> str:
        job = self.get("vcjob", name, "-n", namespace)
        return "" if job is None else str(job.get("status", {}).get("state", {}).get("phase", ""))

    def stop(self) -> None:
        """Stop everything that was started."""


class EmbeddedWorld(World):
    """``strato up`` in a directory of its own."""

    def __init__(self, home: Path, *options: str) -> None:
        self.home = home
        self.kubeconfig = home / "kubeconfig"
        self.options = options

    def start(self) -> None:
        self.own("up", "--port", "0", *self.options)

    def own(self, *args: str, check: bool = True, timeout: float = 400) -> str:
        """Run strato with this cluster's home."""
        done = subprocess.run(
            [*STRATO, "--home", str(self.home), *args], text=True, capture_output=True, timeout=timeout, check=False
        )
        tail = self.log.read_text(errors="replace")[-4000:] if done.returncode and self.log.exists() else ""
        assert not check or done.returncode == 0, f"strato {' '.join(args)}\n{done.stdout}{done.stderr}\n{tail}"
        return done.stdout + done.stderr

    def last_words(self) -> str:
        try:
            gone = not alive(self.pid)
        except (OSError, ValueError, IndexError):
            gone = True
        if not gone:
            return ""
        parts = [
            f"{path}:\n{path.read_text(errors='replace')[-4000:]}" for path in sorted(self.home.glob("strato*.log*"))
        ]
        return f"the cluster of {self.home} is gone\n" + "\n".join(parts)

    @property
    def pid(self) -> int:
        return int((self.home / "strato.pid").read_text().split()[0])

    @property
    def log(self) -> Path:
        return self.home / "strato.log"

    @property
    def processes(self) -> list[int]:
        """The API server's process and the one of the parts."""
        return [self.pid, *map(int, Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split())]

    def kill(self) -> None:
        """Kill the cluster's process without a chance to say goodbye; the parts' process dies with it."""
        processes = self.processes
        os.kill(processes[0], signal.SIGKILL)
        eventually(lambda: not any(map(alive, processes)), what=f"processes {processes} are gone", every=0.005)

    def kill_while_it_starts(self, *options: str, after_seconds: float) -> None:
        """Start the cluster and kill its process so long after it was born, ready or not."""
        before = self._pid_text()
        starting = subprocess.Popen(
            [*STRATO, "--home", str(self.home), "up", *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        eventually(lambda: self._pid_text() not in ("", before), what="the process is born", every=0.005)
        time.sleep(after_seconds)
        self.kill()
        starting.wait()

    def _pid_text(self) -> str:
        try:
            return (self.home / "strato.pid").read_text().strip()
        except FileNotFoundError:  # who starts the cluster clears away what a killed one left
            return ""

    def stop(self) -> None:
        self.own("down", check=False)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


class ClusterWorld(World):
    """Somebody's cluster, which has strato installed; what it runs on is its own business."""

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig

    def check(self) -> None:
        """Look what it is; fail with a word of advice if strato does not run there."""
        done = self.kubectl_process("get", "queue", "default", check=False)
        assert done.returncode == 0, f"no strato on the cluster of {self.kubeconfig}: strato install\n{done.stderr}"
        self.has_our_nodes = [_shape(node) for node in self.items("nodes")] == [("hollow", "4", "16Gi")] * 4
        self.is_kubernetes = "strato" not in json.loads(self.kubectl("get", "--raw", "/version"))["gitVersion"]


def _shape(node: dict[str, Any]) -> tuple[str, str, str]:
    labels, room = node["metadata"].get("labels", {}), node["status"]["allocatable"]
    return labels.get("node.kubernetes.io/instance-type", ""), room["cpu"], room["memory"]


class PartsWorld(World):
    """A cluster whose parts are separate processes, each with its log."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def start_part(self, part: str, *options: str, name: str = "") -> None:
        """Start one of our components as a process of its own; ``name`` tells several of one kind apart."""
        account = "hollow-nodes" if "--hollow-nodes" in options else part
        self._spawn(name or part, [*STRATO, "run", part, "--kubeconfig", str(self._account(account)), *options])

    def _account(self, part: str) -> Path:
        """Return the kubeconfig a component uses."""
        del part
        return self.kubeconfig

    def kill_part(self, name: str) -> None:
        """Kill one component without a chance to say goodbye."""
        process = self.processes.pop(name)
        process.kill()
        process.wait()

    def stop_part(self, name: str) -> int:
        """Ask one component to stop, and return its exit status."""
        process = self.processes.pop(name)
        process.terminate()
        return process.wait(timeout=240)

    def log(self, name: str) -> str:
        """Return what a process has written so far."""
        return (self.directory / f"{name}.log").read_text(errors="replace")

    def _spawn(self, name: str, command: Sequence[str]) -> None:
        with (self.directory / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def stop(self) -> None:
        for process in reversed(self.processes.values()):
            process.terminate()
        for process in self.processes.values():
            try:
                process.wait(timeout=15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


class SplitWorld(PartsWorld):
    """The embedded API server as a process of its own; parts connect with the kubeconfigs it wrote for them."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.home = directory / "home"
        self.kubeconfig = self.home / "kubeconfig"

    def start_server(self, *options: str) -> str:
        """Start the server, wait until it serves, and return its address."""
        self._spawn("apiserver", [*STRATO, "--home", str(self.home), "run", "apiserver", "--port", "0", *options])
        ready = self.home / "ready.json"
        eventually(ready.exists, what="the API server is ready")
        address: str = json.loads(ready.read_text())["address"]
        return address

    def _account(self, part: str) -> Path:
        path = self.home / f"kubeconfig.{part}"
        return path if path.exists() else self.kubeconfig


class KubeWorld(PartsWorld):
    """kube-apiserver, etcd and kube-controller-manager, with our parts as separate processes against them."""

    is_kubernetes = True
    manager_options: tuple[str, ...] = ()
    """Further options of kube-controller-manager."""

    def __init__(
        self,
        directory: Path,
        *,
        hollow_nodes: int = 4,
        cpu: str = "4",
        memory: str = "16Gi",
        admission: Iterable[str] = SERVICES,
    ) -> None:
        super().__init__(directory)
        self.kubeconfig = directory / "kubeconfig"
        self.admission = ",".join(admission)
        """Paths of the webhook's services that the API server asks."""
        self.nodes = ("--hollow-nodes", str(hollow_nodes), "--cpu", cpu, "--memory", memory)
        self.client_ca = directory / "client-ca.crt"
        self.webhook_port = 0
        self.binaries = self.find_binaries()

    @staticmethod
    def find_binaries() -> Path:
        """Return where the control plane's programs are, or would be."""
        version = next(
            line.split()[1]
            for line in (CONTROL_PLANE / "go.mod").read_text().splitlines()
            if line.split()[:1] == ["k8s.io/kubernetes"]
        )
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        return Path(os.environ.get("STRATO_KUBE_BIN") or cache / "strato-kube" / version)

    def start(self) -> None:
        self.start_control_plane()
        self.strato("install", "--only", "namespace", "--only", "crds", "--only", "rbac")
        self.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=300s")
        self._wait_for_roles()
        self.start_scheduling()
        self.start_part("node", *self.nodes)
        self.start_webhook()
        eventually(lambda: self.get("queue", "default"), what="the scheduler has made its queues")

    def start_scheduling(self) -> None:
        """Start the scheduler and the controllers."""
        for part in ("scheduler", "controllers"):
            self.start_part(part)

    def _wait_for_roles(self) -> None:
        """Wait until the API server, which keeps roles in a cache, knows the components': none may be forbidden."""
        lease = ("create", "leases", "-n", "volcano-system")
        for account, words in (
            ("volcano-scheduler", ("list", "podgroups.scheduling.volcano.sh", "-A")),
            ("volcano-scheduler", lease),
            ("volcano-controllers", ("list", "podgroups.scheduling.volcano.sh", "-A")),
            ("volcano-controllers", lease),
            ("volcano-admission", ("list", "queues.scheduling.volcano.sh")),
        ):
            user = f"--as=system:serviceaccount:volcano-system:{account}"
            eventually(
                lambda words=words, user=user: self.kubectl("auth", "can-i", *words, user, check=False).startswith(
                    "yes"
                ),
                what=f"{account} may {' '.join(words)}",
            )

    def start_control_plane(self) -> None:
        self.start_api_server()
        self._spawn(
            "kube-controller-manager",
            [str(self.binaries / "kube-controller-manager"), f"--kubeconfig={self.kubeconfig}"]
            + ["--leader-elect=false", "--secure-port=0"]
            + [f"--service-account-private-key-file={self.directory / 'sa.key'}", *self.manager_options],
        )

    def start_api_server(self, *, disabled_plugins: str = "ServiceAccount") -> None:
        """Start etcd and kube-apiserver and wait until they serve; ``disabled_plugins`` are of admission."""
        etcd_port, peer_port, port = free_port(), free_port(), free_port()
        base = self.directory
        (base / "tokens.csv").write_text("e2e-token,e2e-admin,1,system:masters\n")
        key = base / "sa.key"
        subprocess.run(["openssl", "genrsa", "-out", str(key), "2048"], check=True, capture_output=True)
        self._write_kubelet_client()
        self._spawn(
            "etcd",
            [str(self.binaries / "etcd"), "--data-dir", str(base / "etcd"), "--unsafe-no-fsync"]
            + ["--listen-client-urls", f"http://127.0.0.1:{etcd_port}"]
            + ["--advertise-client-urls", f"http://127.0.0.1:{etcd_port}"]
            + ["--listen-peer-urls", f"http://127.0.0.1:{peer_port}"],
        )
        self._spawn(
            "kube-apiserver",
            [str(self.binaries / "kube-apiserver"), f"--etcd-servers=http://127.0.0.1:{etcd_port}"]
            + [f"--secure-port={port}", "--bind-address=127.0.0.1", f"--cert-dir={base / 'certs'}"]
            + [f"--token-auth-file={base / 'tokens.csv'}", "--authorization-mode=RBAC"]
            + ["--service-cluster-ip-range=10.0.0.0/16", "--service-account-issuer=https://kubernetes.default.svc"]
            + [f"--service-account-key-file={key}", f"--service-account-signing-key-file={key}"]
            + [f"--disable-admission-plugins={disabled_plugins}", "--allow-privileged=true"]
            + ["--kubelet-preferred-address-types=InternalIP"]
            + [f"--kubelet-client-certificate={base / 'kubelet-client.crt'}"]
            + [f"--kubelet-client-key={base / 'kubelet-client.key'}"],
        )
        self.kubeconfig.write_text(
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "current-context": "e2e",
                    "clusters": [
                        {
                            "name": "e2e",
                            "cluster": {"server": f"https://127.0.0.1:{port}", "insecure-skip-tls-verify": True},
                        }
                    ],
                    "users": [{"name": "e2e", "user": {"token": "e2e-token"}}],
                    "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": "e2e"}}],
                }
            )
        )
        self.kubeconfig.chmod(0o600)
        eventually(
            lambda: self.kubectl_process("get", "--raw", "/readyz", check=False).stdout == "ok",
            timeout=300,
            what="kube-apiserver is ready",
        )
        eventually(lambda: self.get("namespace", "default"), what="namespace default exists")

    def _write_kubelet_client(self) -> None:
        """Write what the API server shows to nodes, and the authority that nodes know it by."""
        now = time.time()
        authority = Authority.make("e2e", now_seconds=now, days=2)
        pair = authority.client("kube-apiserver-kubelet-client", ("system:masters",), now_seconds=now, days=1)
        self.client_ca.write_bytes(authority.pair.certificate)
        (self.directory / "kubelet-client.crt").write_bytes(pair.certificate)
        (self.directory / "kubelet-client.key").write_bytes(pair.private_key)

    def stop(self) -> None:
        """Stop our parts, then kill Kubernetes' programs: nobody reads their state again, and they take 20 s to end."""
        plane = [self.processes.pop(name) for name in CONTROL_PLANE_PROGRAMS if name in self.processes]
        super().stop()
        for process in plane:
            process.kill()
            process.wait()

    def _account(self, part: str) -> Path:
        """Return a kubeconfig of a component's own service account: it may do what its role says and no more."""
        account = {
            "scheduler": "volcano-scheduler",
            "controllers": "volcano-controllers",
            "webhook": "volcano-admission",
        }.get(part)
        if account is None:
            return self.kubeconfig
        path = self.directory / f"kubeconfig.{part}"
        if not path.exists():
            token = self.kubectl("create", "token", account, "-n", "volcano-system", "--duration=8h").strip()
            config = json.loads(self.kubeconfig.read_text())
            config["users"][0]["user"] = {"token": token}
            path.write_text(json.dumps(config))
            path.chmod(0o600)
        return path

    def start_webhook(self, *options: str) -> None:
        """Start the webhook, and wait until the API server asks it; it notices new configurations a little later."""
        chosen = ("--set", f"custom.enabled_admissions={self.admission}")
        manifests = list(yaml.safe_load_all(self.strato("install", "--dry-run", "--only", "admission", *chosen)))
        hooks = [body for body in manifests if body["kind"].endswith("WebhookConfiguration")]
        if self.get("validatingwebhookconfiguration", "volcano-admission-service-jobs-validate") is None:
            self.kubectl("create", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": hooks}))
        self.webhook_port = self.webhook_port or free_port()
        address = f"https://127.0.0.1:{self.webhook_port}"
        where = ("--webhook-url", address, "--port", str(self.webhook_port))
        self.start_part("webhook", *where, "--enabled-admission", self.admission, *options)
        unnamed = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "unasked"}}
        unnamed["spec"] = {"weight": 1, "parent": "nobody"}

        def is_asked() -> bool:
            done = self.kubectl_process("create", "--dry-run=server", "-f", "-", stdin=json.dumps(unnamed), check=False)
            return "failed to get parent queue" in done.stderr  # the definitions cannot say that

        eventually(is_asked, what="the API server asks the webhook")


@contextlib.contextmanager
def embedded(home: Path, *options: str) -> Iterator[EmbeddedWorld]:
    """Run an embedded cluster for the length of a block."""
    world = EmbeddedWorld(home, *options)
    try:
        world.start()
        yield world
    finally:
        world.stop()
        shutil.rmtree(home, ignore_errors=True)
