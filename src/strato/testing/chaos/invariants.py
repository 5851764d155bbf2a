"""Invariants that must hold after every change of the cluster, whatever faults occur.

`Watchdog` follows each change that the server publishes and each answer that its clients get. It computes sums itself,
from the JSON of pods, so that it depends on none of the scheduler's or the server's arithmetic.

- A pod is bound once, to one node, for all its time.
- The pods of a node that have not ended fit into it. Two schedulers that decide at the same time can break that in the
  API; the kubelet then rejects pods. That is excused only if the server carried out a bind of a scheduler that had been
  replaced; the pods that a node runs must fit even then.
- The pods of a namespace keep its quota; those of a queue its capability, with the same excuse.
- Every change that a client which outlives the server was answered or sent is on the disk after a crash.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from strato.api.wire import Request, Response
from strato.server.api import ApiServer
from strato.server.snapshot import Change
from strato.testing.chaos.network import ProcessClient
from strato.testing.chaos.workload import QUEUES, QUOTA_CPUS, QUOTA_NAMESPACE

Json = dict[str, Any]
_FINAL: Final = ("Succeeded", "Failed")
_SUFFIXES: Final = {"m": 1, "": 1000, "Ki": 2**10 * 1000, "Mi": 2**20 * 1000, "Gi": 2**30 * 1000, "Ti": 2**40 * 1000}
_RESOURCES: Final = ("cpu", "memory")
_GROUP: Final = "scheduling.k8s.io/group-name"
_GROUPS: Final = "podgroups.scheduling.volcano.sh"


class _Revision(msgspec.Struct, frozen=True):
    resource_version: str = msgspec.field(name="resourceVersion", default="")


class _Answer(msgspec.Struct, frozen=True):
    metadata: _Revision = _Revision()


_decode_answer = msgspec.json.Decoder(_Answer).decode


def thousandths(amount: Any) -> int:
    """Parse a quantity in the workload's notation; return thousandths."""
    text = str(amount)
    number = text.rstrip("mKGMTi")
    return int(number) * _SUFFIXES[text[len(number) :]]


def requests_of(pod: Json) -> dict[str, int]:
    """Return the requests of a pod, in thousandths."""
    total = dict.fromkeys(_RESOURCES, 0)
    for container in pod["spec"]["containers"]:
        for name, amount in (container.get("resources", {}).get("requests") or {}).items():
            if name in total:
                total[name] += thousandths(amount)
    return total


@dataclass(frozen=True, slots=True)
class _Pod:
    """The watchdog's record of a pod."""

    uid: str
    key: str
    node: str
    is_final: bool
    is_run: bool
    """Whether its node has admitted it."""
    is_going: bool
    """Whether it is being deleted, so that its queue may give its resources to others."""
    group: str
    requests: dict[str, int]

    @classmethod
    def of(cls, body: Json) -> _Pod:
        metadata, status = body["metadata"], body.get("status", {})
        return cls(
            uid=metadata["uid"],
            key=f"{metadata['namespace']}/{metadata['name']}",
            node=body["spec"].get("nodeName", ""),
            is_final=status.get("phase") in _FINAL,
            is_going="deletionTimestamp" in metadata,
            group=f"{metadata['namespace']}/{(metadata.get('annotations') or {}).get(_GROUP, '')}",
            is_run=bool(status.get("containerStatuses")) and status.get("phase") == "Running",
            requests=requests_of(body),
        )


@dataclass(slots=True)
class BrokenInvariant:
    """A broken invariant, and when it was broken."""

    at: float
    rule: str
    text: str

    def __str__(self) -> str:
        return f"{self.at:8.3f} s  {self.rule}: {self.text}"


@dataclass(slots=True)
class Watchdog:
    """Checks the invariants during a run.

    Args:
        now: Returns seconds since the start.
        has_newer_scheduler: Whether another scheduler has begun to decide since a client's did.
    """

    now: Callable[[], float]
    has_newer_scheduler: Callable[[ProcessClient], bool]
    findings: list[BrokenInvariant] = field(default_factory=list)
    story: list[tuple[float, str]] = field(default_factory=list)
    """Short descriptions of what happened, with instants."""
    changes: int = 0
    revision: int = 0
    """The newest revision sent to a client that outlives the server."""
    _server: ApiServer | None = None
    _pods: dict[str, _Pod] = field(default_factory=dict)
    _bound: dict[str, str] = field(default_factory=dict)
    """Node of every pod so far, by uid."""
    _excused: dict[str, None] = field(default_factory=dict)
    """Uids of pods bound by a scheduler that had been replaced."""
    _capacity: dict[str, dict[str, int]] = field(default_factory=dict)
    _queues: dict[str, str] = field(default_factory=dict)
    """Queue of each pod group."""
    _reported: dict[tuple[str, str], None] = field(default_factory=dict)
    _digest: Any = field(default_factory=hashlib.sha256)

    @property
    def digest(self) -> str:
        """A hash of all changes so far, with their instants."""
        return str(self._digest.hexdigest())

    def report(self, rule: str, text: str, *, once_for: str = "") -> None:
        """Record a finding; later ones of the same rule about the same thing are dropped."""
        if once_for and (rule, once_for) in self._reported:
            return
        self._reported[rule, once_for] = None
        self.findings.append(BrokenInvariant(self.now(), rule, text))
        self.note(f"FOUND {rule}: {text}")

    def note(self, text: str) -> None:
        """Add a line to the story."""
        self.story.append((self.now(), text))

    # The server

    def server_started(self, server: ApiServer) -> None:
        """Follow a new incarnation of the server, which may have changes that no reader has been sent."""
        self._server = server
        held = self._rows("pods")
        for key in [key for key in self._pods if key not in held]:
            self._remove_pod(key)
        for key, body in held.items():
            self._set_pod(key, body)
        for name, body in self._rows("nodes").items():
            self._set_node(name, body)
        for key, body in self._rows(_GROUPS).items():
            self._queues[key] = body["spec"].get("queue", "default")
        for resource in ("pods", "nodes", _GROUPS, "jobs.batch.volcano.sh", "jobs.batch"):
            server.store.on_publish(resource, self._published)
        self._digest.update(f"start {self.now():.6f} {server.store.revision}".encode())

    def server_crashed(self, last_revision: int) -> None:
        """Compare the disk with the changes that clients were sent."""
        if last_revision < self.revision:
            self.report(
                "acknowledged write lost",
                f"revision {self.revision} was acknowledged, and the disk ends at {last_revision}",
            )
        self.revision = min(self.revision, last_revision)

    def _rows(self, resource: str) -> dict[str, Json]:
        assert self._server is not None
        rows = self._server.store.bucket(resource).objects
        return {key: msgspec.json.decode(row.body) for key, row in rows.items()}

    def _published(self, resource: str, change: Change) -> None:
        self.changes += 1
        self._digest.update(f"{self.now():.6f} {resource} {change.key} {change.revision} ".encode())
        self._digest.update(change.body or b"gone")
        body = None if change.body is None else msgspec.json.decode(change.body)
        if resource == _GROUPS and body is not None:
            self._queues[change.key] = body["spec"].get("queue", "default")
        if resource == "pods":
            self._remove_pod(change.key) if body is None else self._set_pod(change.key, body)
        elif resource == "nodes" and body is not None:
            self._set_node(change.key, body)
        elif body is None or change.previous is None:
            self.note(f"{resource.partition('.')[0]} {change.key} {'deleted' if body is None else 'created'}")
        elif resource != "nodes":
            self._note_phase(resource, change.key, body, msgspec.json.decode(change.previous))

    def _note_phase(self, resource: str, key: str, new: Json, old: Json) -> None:
        def phase(body: Json) -> str:
            status = body.get("status") or {}
            state = status.get("state")
            return str(state.get("phase", "")) if isinstance(state, dict) else str(status.get("phase", ""))

        if phase(new) != phase(old):
            self.note(f"{resource.partition('.')[0]} {key} {phase(new)}")

    # Pods

    def _set_pod(self, key: str, body: Json) -> None:
        pod, old = _Pod.of(body), self._pods.get(key)
        self._pods[key] = pod
        if old is None or old.uid != pod.uid:
            self.note(f"pod {pod.key} created")
        known = self._bound.get(pod.uid, "")
        if pod.node and pod.node != known:
            self.note(f"pod {pod.key} bound to {pod.node}")
        if known and pod.node != known:
            self.report("pod bound twice", f"{pod.key} was bound to {known} and is bound to {pod.node or 'none'}")
        if pod.node:
            self._bound[pod.uid] = pod.node
            self._look_at_node(pod.node)
            self._look_at_queue(self._queues.get(pod.group, ""))
        status = body.get("status", {})
        if old is not None and (old.is_final, old.is_run) != (pod.is_final, pod.is_run):
            reason = f" ({status['reason']})" if status.get("reason") else ""
            self.note(f"pod {pod.key} {status.get('phase')}{reason}")
        if pod.key.startswith(f"{QUOTA_NAMESPACE}/"):
            self._look_at_quota()

    def _remove_pod(self, key: str) -> None:
        gone = self._pods.pop(key, None)
        if gone is not None:
            self.note(f"pod {gone.key} deleted")

    def _set_node(self, name: str, body: Json) -> None:
        allocatable = body.get("status", {}).get("allocatable") or {}
        self._capacity[name] = {key: thousandths(allocatable.get(key, 0)) for key in _RESOURCES}
        self._capacity[name]["pods"] = thousandths(allocatable.get("pods", 0))

    def _look_at_node(self, node: str) -> None:
        capacity = self._capacity.get(node)
        if capacity is None:
            return
        held = [pod for pod in self._pods.values() if pod.node == node and not pod.is_final]
        if not any(pod.uid in self._excused for pod in held):
            self._fit(node, "node overcommitted", held, capacity)
        self._fit(node, "node runs too much", [pod for pod in held if pod.is_run], capacity)

    def _fit(self, node: str, rule: str, pods: list[_Pod], capacity: dict[str, int]) -> None:
        used = {name: sum(pod.requests[name] for pod in pods) for name in _RESOURCES}
        used["pods"] = 1000 * len(pods)
        for name, amount in used.items():
            if amount > capacity[name]:
                keys = ", ".join(pod.key for pod in pods)
                text = f"{node} has {capacity[name] / 1000:g} {name}, its pods {amount / 1000:g}: {keys}"
                self.report(rule, text, once_for=node)

    def _look_at_queue(self, queue: str) -> None:
        capability = 1000 * QUEUES.get(queue, 0)
        pods = [
            pod
            for pod in self._pods.values()
            if pod.node and not (pod.is_final or pod.is_going) and self._queues.get(pod.group) == queue
        ]
        used = sum(pod.requests["cpu"] for pod in pods)
        if capability and used > capability and not any(pod.uid in self._excused for pod in pods):
            keys = ", ".join(pod.key for pod in pods)
            text = f"the pods of queue {queue} request {used / 1000:g} of {capability / 1000:g} CPUs: {keys}"
            self.report("queue over its capability", text, once_for=queue)

    def _look_at_quota(self) -> None:
        pods = [pod for pod in self._pods.values() if pod.key.startswith(f"{QUOTA_NAMESPACE}/") and not pod.is_final]
        used = sum(pod.requests["cpu"] for pod in pods)
        if used > 1000 * QUOTA_CPUS:
            text = f"the pods of namespace {QUOTA_NAMESPACE} request {used / 1000:g} of {QUOTA_CPUS} CPUs"
            self.report("quota exceeded", text, once_for=QUOTA_NAMESPACE)

    # Requests

    def carried_out(self, line: ProcessClient, request: Request, sent_at: float) -> None:
        """Record a request that the server starts to carry out."""
        del sent_at
        if request.path.endswith("/binding") and self.has_newer_scheduler(line):
            body = msgspec.json.decode(request.body)
            uid = body["metadata"].get("uid", "")
            self._excused[uid] = None
            self.note(f"bind of {body['metadata']['name']} by {line.process}, which no longer decides")

    def acknowledged(self, line: ProcessClient, request: Request, response: Response) -> None:
        """Record an answer that has reached a client."""
        if line.is_embedded or response.status >= 300 or not response.body:
            return
        if request.method == "GET" and "watch" in request.query:
            return
        version = _decode_answer(response.body).metadata.resource_version
        if version:
            self.revision = max(self.revision, int(version))


def findings_text(findings: Iterable[BrokenInvariant]) -> str:
    """Return findings as lines."""
    return "\n".join(map(str, findings))
