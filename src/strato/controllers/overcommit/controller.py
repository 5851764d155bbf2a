"""The controller that writes the ratio of each node's cpu, by which our nodes and the webhook amplify allocatable cpu.

When the wanted ratio offers less cpu than pods hold, the controller lowers the ratio as pods leave: it evicts none, and
the scheduler places none there meanwhile. It leaves ratios alone that others write (Koordinator's manager), unless the
node itself has a factor.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import ClassVar, Final

from strato.api.amplification import (
    RATIO,
    SOURCE,
    InvalidFactor,
    amplified,
    cpu_ratio,
    ratios_text,
    raw_cpu_milli,
    read_ratios,
)
from strato.api.core import ConfigMap, Node, Pod
from strato.api.meta import Json, Key
from strato.client.informer import Change
from strato.controllers.context import ControllerContext
from strato.controllers.overcommit.policy import (
    CONFIG_KEY,
    OvercommitPolicy,
    held_ratio,
    parse_policy,
    requested_milli,
    wanted_ratio,
)
from strato.controllers.reconcile import KeyedController
from strato.errors import InvalidInput, NotFound

HELD: Final = "held"
"""`SOURCE` of a ratio that nothing asks for any more and that is kept only because pods hold the cpu."""
RETRY_SECONDS: Final = 10.0
"""Seconds between checks of a node whose pods hold more cpu than the wanted ratio offers."""

_log = logging.getLogger(__name__)


class CpuOvercommitController(KeyedController):
    """See the module."""

    name: ClassVar[str] = "cpu-overcommit-controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        where = context.settings.overcommit_configmap
        self._policy = OvercommitPolicy()
        self._nodes = context.informers.informer(Node)
        self._nodes.add_handler(self._on_node)
        configs = context.informers.informer(
            ConfigMap, namespace=where.namespace, field_selector=f"metadata.name={where.name}"
        )
        configs.add_handler(self._on_config)

    def _on_node(self, change: Change[Node]) -> None:
        old, new = change
        if new is None:
            return
        # most changes of nodes are heartbeats, which do not matter here
        if old is None or (old.metadata.annotations, old.metadata.labels) != (
            new.metadata.annotations,
            new.metadata.labels,
        ):
            self.queue.add(change.key)

    def _on_config(self, change: Change[ConfigMap]) -> None:
        text = change.new.data.get(CONFIG_KEY, "") if change.new is not None else ""
        try:
            self._policy = parse_policy(text)
        except InvalidInput as error:
            _log.error("cpu overcommit keeps its configuration: configmap=%s: %s", change.key, error)
            self._recorder.event(change.object, "Warning", "PolicyInvalid", f"the earlier policy stays: {error}")
            return
        for node in self._nodes.list():
            self.queue.add(node.key)

    async def reconcile(self, key: Key) -> float | None:
        """Bring one node's ratio up to date."""
        node = self._nodes.get(key)
        if node is None:
            return None
        try:
            wanted = wanted_ratio(node, self._policy)
            others = read_ratios(node.metadata.annotation(RATIO))
        except InvalidFactor as error:
            self._recorder.event(node, "Warning", "InvalidCpuOvercommit", f"the ratio stays as it is: {error}")
            return None
        source = node.metadata.annotation(SOURCE)
        if (wanted is None and not source) or ("cpu" in others and not source and not (wanted and wanted.is_explicit)):
            return None
        ratio = target = wanted.ratio if wanted is not None else 1.0
        now = cpu_ratio(node)
        requested = 0
        if target < now:
            page = await self._cluster.list(Pod, field_selector=f"spec.nodeName={key.name}")
            requested = requested_milli(page.items)
            ratio = held_ratio(target, requested, raw_cpu_milli(node))
        others["cpu"] = ratio
        if wanted is None and ratio == target:
            del others["cpu"]
        reason = wanted.source if wanted is not None else (HELD if "cpu" in others else None)
        annotations = {RATIO: ratios_text(others) if others else None, SOURCE: reason}
        if any(node.metadata.annotation(name) != (text or "") for name, text in annotations.items()):
            await self._write(node, {"metadata": {"uid": node.metadata.uid, "annotations": annotations}})
        self._notify(node, now, ratio, target, requested)
        return RETRY_SECONDS if ratio > target else None

    async def _write(self, node: Node, body: Json) -> None:
        with suppress(NotFound):
            await self._cluster.patch(Node, node.metadata.name, "", body)
            # A kubelet writes its status only every few minutes. Write its last amount once more, so that the webhook
            # amplifies it by the new ratio at once.
            amount = node.status.allocatable.get("cpu")
            if amount is not None:
                await self.write_status(Node, node.key, {"allocatable": {"cpu": str(amount)}})

    def _notify(self, node: Node, before: float, ratio: float, target: float, requested: int) -> None:
        raw = raw_cpu_milli(node)
        if ratio > target:
            text = (
                f"pods hold {_cpus(requested)} cpus, more than the {_cpus(amplified(raw, target))} of a ratio of "
                f"{target:.2f}: the ratio is {ratio:.2f} until they leave, nobody is evicted"
            )
            self._recorder.event(node, "Warning", "CpuOvercommitHeld", text)
        elif ratio != before:
            text = f"{_cpus(raw)} cpus count as {_cpus(amplified(raw, ratio))}, a ratio of {ratio:.2f}"
            self._recorder.event(node, "Normal", "CpuOvercommitChanged", text)


def _cpus(amount: int) -> str:
    return f"{amount / 1000:g}"
