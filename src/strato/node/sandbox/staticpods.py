"""Static pods: files in a directory of the node, each of which is a pod that it keeps running by itself.

The API shows a mirror pod of each. Here that is the pod: the node makes it anew when somebody has deleted it, when its
file has changed, and when the machine's shutdown has ended it; it deletes the pod when the file is gone.

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
"""Of the files, below the node's."""
_PERIOD_SECONDS: Final = 5.0
_MOST_BYTES: Final = 1 << 20
_ENDINGS: Final = (".yaml", ".yml", ".json")

_log = logging.getLogger(__name__)


class BadManifest(StratoError):
    """A file that is no pod; the message says why."""


@dataclass(frozen=True, slots=True)
class StaticPod:
    """What a file asks for."""

    key: Key
    hash: str
    body: Mapping[str, Any]


def read_static_pod(data: bytes, node: str) -> StaticPod:
    """Read a file.

    Raises:
        BadManifest: It is no pod, or none that a node can make by itself.
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
        machine: Whose first node it is.
        clock: Times looks at the directory.
        nodes: This node, perhaps among others.
        pods: Its pods, likewise.
        recorder: Told of files that cannot be used, of each once until that changes.
    """

    def __init__(
        self, machine: Machine, clock: Clock, nodes: Informer[Node], pods: Informer[Pod], recorder: EventRecorder
    ) -> None:
        self._cluster, self._clock, self._name = machine.cluster, clock, machine.node_name
        self._directory = os.path.join(machine.node_paths.data_dir, DIRECTORY)
        self._nodes, self._pods, self._recorder = nodes, pods, recorder
        self._problems: dict[str, str] = {}
        self._read: dict[str, tuple[FileStamp | None, StaticPod]] = {}
        """Of each file when it was last changed, and what it asks for."""

    async def run(self) -> None:
        """Look until cancelled."""
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
            if key not in present:  # what is going is waited for
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
        """Return what the files ask for, of two for one pod the first, and what is wrong with the others."""
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
        """Read a file that has changed since it was read."""
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
            node = Node(metadata=ObjectMeta(name=self._name, uid=self._name))  # as a kubelet's events name it
            self._recorder.event(node, "Warning", "InvalidStaticPod", problem)


def _is_static(pod: Pod) -> bool:
    return pod.metadata.annotation(SOURCE) == "file"
