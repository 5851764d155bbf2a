"""Annotate co-located pods with the ColocationConfiguration that selects them; node agents read the annotation.

Source: volcano-controllers Part J.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, ClassVar, Final

import msgspec

from strato.api.core import Pod
from strato.api.meta import Key
from strato.api.selectors import from_label_selector
from strato.api.volcano.config import ColocationConfiguration
from strato.client.informer import Change
from strato.controllers.context import ControllerContext
from strato.controllers.reconcile import KeyedController
from strato.decoding import UNDECODABLE
from strato.errors import NotFound

CONFIG_NAME: Final = "volcano.sh/colocation-config-name"
CONFIG: Final = "volcano.sh/colocation-config"
RESET: Final = "{}"
"""Tells agents that a configuration no longer applies."""

DELAY_SECONDS: Final = 1.0
"""How long a pod waits to be reconciled, so that several changes within this time cause one reconcile."""


def choose(pod: Pod, configurations: Iterable[ColocationConfiguration]) -> ColocationConfiguration | None:
    """Return the newest configuration that selects a pod. A configuration without a selector selects no pod."""
    newest = sorted(
        configurations, key=lambda one: (one.metadata.creation_timestamp or "", one.metadata.name), reverse=True
    )
    return next((one for one in newest if _selects(one, pod)), None)


def wanted_annotations(pod: Pod, chosen: ColocationConfiguration | None) -> dict[str, str | None] | None:
    """Return the annotations to change, None when the pod has the right ones already."""
    name, text = pod.metadata.annotation(CONFIG_NAME), pod.metadata.annotation(CONFIG)
    if chosen is None:
        if not name and text in ("", RESET):
            return None
        return {CONFIG_NAME: None, CONFIG: RESET}
    content = _content(chosen)
    if name == chosen.metadata.name and _decoded(text) == content:
        return None
    return {CONFIG_NAME: chosen.metadata.name, CONFIG: json.dumps(content, separators=(",", ":"))}


class ColocationController(KeyedController):
    """See the module. Pods of namespaces without configurations cost one look-up."""

    name: ClassVar[str] = "colocation-config-controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._in_namespace: defaultdict[str, dict[str, ColocationConfiguration]] = defaultdict(dict)
        self._pods = context.informers.informer(Pod)
        context.informers.informer(ColocationConfiguration).add_handler(self._on_configuration)
        self._pods.add_handler(self._on_pod, among=self._selectable)

    def _on_configuration(self, change: Change[ColocationConfiguration]) -> None:
        namespace, name = change.key
        known = self._in_namespace[namespace]
        if change.new is None:
            known.pop(name, None)
            if not known:
                del self._in_namespace[namespace]
        else:
            known[name] = change.new
        if change.old is not None and change.new is not None and change.old.spec == change.new.spec:
            return
        # an index of pods by namespace would cost every pod event, while configurations change rarely
        for pod in self._pods.list():
            if pod.metadata.namespace == namespace and any(
                one is not None and _selects(one, pod) for one in (change.old, change.new)
            ):
                self.queue.add_after(pod.key, DELAY_SECONDS)

    def _selectable(self, changes: Sequence[Change[Pod]]) -> Sequence[Change[Pod]]:
        """Return the changes of pods whose namespace has a configuration, or which still have one's annotation."""
        namespaces = self._in_namespace
        return [
            change
            for change in changes
            if (pod := change.new) is not None
            and (
                pod.metadata.namespace in namespaces
                or (pod.metadata.annotations and pod.metadata.annotations.get(CONFIG_NAME))
            )
        ]

    def _on_pod(self, change: Change[Pod]) -> None:
        old, pod = change
        if pod is not None and (old is None or old.metadata.labels != pod.metadata.labels):
            self.queue.add_after(pod.key, DELAY_SECONDS)

    async def reconcile(self, key: Key) -> float | None:
        """Annotate one pod."""
        pod = self._pods.get(key)
        if pod is None or pod.metadata.deletion_timestamp is not None:
            return None
        configurations = self._in_namespace.get(key.namespace, {}).values()
        annotations = wanted_annotations(pod, choose(pod, configurations))
        if annotations is not None:
            body = {"metadata": {"uid": pod.metadata.uid, "annotations": annotations}}
            with suppress(NotFound):
                await self._cluster.patch(Pod, key.name, key.namespace, body)
        return None


def _selects(one: ColocationConfiguration, pod: Pod) -> bool:
    selector = one.spec.selector
    return selector is not None and from_label_selector(selector).matches(pod.metadata.labels)


def _content(one: ColocationConfiguration) -> dict[str, Any]:
    qos = one.spec.memory_qos
    if qos is None:
        return {}
    return {"memoryQos": {"highRatio": qos.high_ratio, "lowRatio": qos.low_ratio, "minRatio": qos.min_ratio}}


def _decoded(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except UNDECODABLE:
        return None
