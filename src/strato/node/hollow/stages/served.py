"""Stage objects of the cluster, if it serves kwok's definition."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final

from strato.api.kinds import Kind
from strato.client.cluster import Cluster
from strato.clock import Clock
from strato.errors import ApiError, InvalidInput
from strato.node.hollow.stages.model import Stage, parse_stages

STAGE: Final = Kind("kwok.x-k8s.io", "v1alpha1", "Stage", "stages", namespaced=False)
_INTERVAL_SECONDS: Final = 10.0
"""Seconds between two reads: stages rarely change, and objects that wait keep the stage that they have anyway."""
_log = logging.getLogger(__name__)


class ServedStages:
    """Reads the stages of a cluster periodically.

    Args:
        on_change: Called with all stages when they have changed.
    """

    def __init__(self, cluster: Cluster, clock: Clock, on_change: Callable[[Sequence[Stage]], None]) -> None:
        self._cluster, self._clock, self._on_change = cluster, clock, on_change
        self._version = ""

    async def run(self) -> None:
        """Read the stages until cancelled; invalid stages are logged, and the previous ones stay in force."""
        while True:
            try:
                await self.look()
            except (ApiError, InvalidInput) as error:
                _log.warning("the cluster's stages cannot be read: %s", error)
            await self._clock.sleep(_INTERVAL_SECONDS)

    async def look(self) -> None:
        """Read the stages once.

        Raises:
            ApiError: The list failed; NotFound if the definition is not served.
            InvalidInput: Some stages are invalid; all problems are listed.
        """
        page = await self._cluster.list(STAGE)
        version = ",".join(
            sorted(f"{one['metadata']['uid']}/{one['metadata']['resourceVersion']}" for one in page.items)
        )
        if version != self._version or not self._version:
            stages = parse_stages(("the cluster", one) for one in _named(page.items))
            self._version = version
            self._on_change(stages)


def _named(items: Sequence[dict[str, object]]) -> list[dict[str, object]]:
    """Return the items of a list with their kind, which items of a list may lack."""
    return [{"apiVersion": STAGE.api_version, "kind": STAGE.name, **one} for one in items]
