"""Static pods: manifests in a directory of the node, whose pods the node creates and keeps running.

A kubelet runs the pod itself and only shows a mirror pod in the API. Here the API's pod is the one that runs: the node
creates it again when somebody has deleted it, when its file has changed, and when the machine's shutdown has ended it;
it deletes the pod when the file is gone.

Source: Kubernetes' ``pkg/kubelet/config``: names, annotations, tolerations.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from strato.api import catalog, yamltext
from strato.api.core import Node, Pod
from strato.api.meta import Key, ObjectMeta
from strato.api.pods import MIRROR
from strato.client.events import EventRecorder
from strato.client.informer import Informer
from strato.clock import Clock
from strato.errors import AlreadyExists, ApiError, NotFound, StratoError, one_line
from strato.filestamps import FileStamp
from strato.node import beneath
from strato.node.podstatus import TERMINATED
from strato.node.sandbox.machine import Machine

HASH, SOURCE = "kubernetes.io/config.hash", "kubernetes.io/config.source"
DIRECTORY: Final = "static-pods"
"""Directory of the manifests, below the node's data directory."""
_PERIOD_SECONDS: Final = 5.0
_MOST_BYTES: Final = 1 << 20
_ENDINGS: Final = (".yaml", ".yml", ".json")

_log = logging.getLogger(__name__)


class BadManifest(StratoError):
    """A file is no valid pod; the message says why."""


@dataclass(frozen=True, slots=True)
class StaticPod:
    """The pod of one file."""

    key: Key
    hash: str
    body: Mapping[str, Any]


def read_static_pod(data: bytes, node: str) -> StaticPod:
    """Read a file.

    Raises:
        BadManifest: The file is no pod, or a pod that a node cannot create by itself.
    """
    try:
        body = yamltext.load(data)
    except (StratoError, ValueError) as err:
        raise BadManifest(one_line(err)) from err
    kind = (body.get("apiVersion"), body.get("kind")) if isinstance(body, dict) else ()
    if kind != ("v1", "Pod"):
        raise BadManifest("apiVersion and kind have to be v1 and Pod")
    metadata, spec = body.get("metadata"), body.get("spec")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str) or not isinstance(spec, dict):
        raise BadManifest("metadata.name and spec have to be there")
    given, tolerated = metadata.get("annotations") or {}, spec.get("tolerations") or []
    if not isinstance(given, dict) or not isinstance(tolerated, list):
        raise BadManifest("metadata.annotations has to be an object, spec.tolerations a list")
    digest = hashlib.sha256(node.encode() + b"\0" + data).hexdigest()[:32]
    name, namespace = f"{metadata['name']}-{node}", str(metadata.get("namespace") or "default")
    annotations = {**given, HASH: digest, MIRROR: digest, SOURCE: "file"}
    tolerations = [*tolerated, {"operator": "Exists", "effect": "NoExecute"}]
    made = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**metadata, "name": name, "namespace": namespace, "annotations": annotations},
        "spec": {**spec, "nodeName": node, "tolerations": tolerations},
    }
    return StaticPod(Key(namespace, name), digest, made)


class StaticPods:
    """See the module.

    Args:
        machine: The machine; only its first node has static pods.
        clock: Times the reads of the directory.
        nodes: Informer of nodes, with this one.
        pods: Informer of pods, with those of this node.
        recorder: Records an event about each invalid file, once until the file changes.
    """

    def __init__(
        self, machine: Machine, clock: Clock, nodes: Informer[Node], pods: Informer[Pod], recorder: EventRecorder
    ) -> None:
        self._cluster, self._clock, self._name = machine.cluster, clock, machine.node_name
        self._directory = os.path.join(machine.node_paths.data_dir, DIRECTORY)
        self._nodes, self._pods, self._recorder = nodes, pods, recorder
        self._problems: dict[str, str] = {}
        self._read: dict[str, tuple[FileStamp | None, StaticPod]] = {}
        """Path of a file → its stamp when it was read, and its pod."""

    async def run(self) -> None:
        """Read the directory periodically and create or delete pods, until cancelled."""
        await self._pods.wait_synced()
        while True:
            try:
                await self._look()
            except (OSError, ApiError) as err:
                self._report("", f"static pods are looked at again later: {one_line(err)}")
            else:
                self._problems.pop("", None)
            await self._clock.sleep(_PERIOD_SECONDS)

    async def _look(self) -> None:
        wanted, problems = await asyncio.to_thread(self._wanted) if os.path.isdir(self._directory) else ({}, {})
        for path in self._problems.keys() - problems.keys():
            if path.startswith(self._directory):
                del self._problems[path]
        for path, problem in problems.items():
            self._report(path, problem)
        ours = [pod for pod in self._pods.list() if pod.spec.node_name == self._name and _is_static(pod)]
        for pod in ours:
            static = wanted.get(pod.key)
            ended = pod.is_finished and pod.status.reason == TERMINATED
            if static is not None and static.hash == pod.metadata.annotation(HASH) and not ended:
                del wanted[pod.key]
            elif pod.metadata.deletion_timestamp is None:
                meta = pod.metadata
                try:
                    await self._cluster.delete(Pod, meta.name, meta.namespace, uid=meta.uid)
                except NotFound:
                    continue
        present = {pod.key for pod in ours}
        for key, static in wanted.items():
            if key not in present:  # a terminating pod of that name must be gone first
                await self._create(static)

    async def _create(self, static: StaticPod) -> None:
        node = self._nodes.get(("", self._name))
        if node is None:
            return
        owner = {"apiVersion": "v1", "kind": "Node", "name": self._name, "uid": node.metadata.uid, "controller": True}
        body = {**static.body, "metadata": {**static.body["metadata"], "ownerReferences": [owner]}}
        try:
            await self._cluster.create(catalog.POD, body, static.key.namespace)
        except AlreadyExists:
            self._report(str(static.key), f"static pod {static.key}: another pod has its name")
        except ApiError as err:
            self._report(str(static.key), f"static pod {static.key}: {one_line(err)}")
        else:
            self._problems.pop(str(static.key), None)

    def _wanted(self) -> tuple[dict[Key, StaticPod], dict[str, str]]:
        """Return the pods of the files, and the problems of bad files; of two files for one pod the first counts."""
        found: dict[Key, StaticPod] = {}
        problems: dict[str, str] = {}
        names = sorted(name for name in os.listdir(self._directory) if name.endswith(_ENDINGS) and name[0] != ".")
        for name in names:
            path = os.path.join(self._directory, name)
            try:
                static = self._static_pod(path)
                if static.key in found:
                    raise BadManifest(f"another file is for pod {static.key}")
            except (OSError, BadManifest) as err:
                problems[path] = f"{path} is no static pod: {one_line(err)}"
            else:
                found[static.key] = static
        return found, problems

    def _static_pod(self, path: str) -> StaticPod:
        """Return the pod of a file; reads it only if it has changed since the last time."""
        seen = FileStamp.of(path)
        known = self._read.get(path)
        if known is None or known[0] != seen:
            if seen is not None and seen.size_bytes > _MOST_BYTES:
                raise BadManifest(f"{seen.size_bytes} bytes are more than {_MOST_BYTES}")
            known = self._read[path] = (seen, read_static_pod(beneath.read_regular(path, _MOST_BYTES), self._name))
        return known[1]

    def _report(self, about: str, problem: str) -> None:
        if self._problems.get(about) != problem:
            self._problems[about] = problem
            _log.warning("%s", problem)
            node = Node(metadata=ObjectMeta(name=self._name, uid=self._name))  # a kubelet's events use the name as uid
            self._recorder.event(node, "Warning", "InvalidStaticPod", problem)


def _is_static(pod: Pod) -> bool:
    return pod.metadata.annotation(SOURCE) == "file"
