"""The quota of all best-effort pods together: read every round, written on change, removed when no handler wants it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from strato.agent.events import Action, ActionKind
from strato.agent.sampling.groupfiles import read_quota, write_quota
from strato.agent.sampling.layouts import CgroupLayout
from strato.errors import one_line

_log = logging.getLogger(__name__)


class ClassQuota:
    """The quota of the best-effort pods' control group on one node.

    Args:
        layout: Finds the group, if the node has one.
    """

    def __init__(self, layout: CgroupLayout) -> None:
        self._layout = layout
        self._is_ours = False
        """Whether the quota in force was written by this agent."""
        self.milli: int | None = None
        """Millicores of the quota as read last; None without a quota."""
        self.has_group = False

    def read(self) -> None:
        """Read the quota in force."""
        group = self._layout.best_effort()
        try:
            self.milli = None if group is None else read_quota(group).milli
            self.has_group = group is not None
        except (OSError, ValueError):
            self.milli, self.has_group = None, False

    async def apply(self, actions: Iterable[Action]) -> None:
        """Write the lowest quota among a round's actions; without any, remove the quota that this agent has written."""
        wanted = [one.value for one in actions if one.kind is ActionKind.SET_CLASS_QUOTA and one.value is not None]
        if wanted:
            await self._write(int(min(wanted)))
        elif self._is_ours:
            await self.clear()

    async def clear(self) -> bool:
        """Remove the quota of the class; return whether there was one."""
        await asyncio.to_thread(self.read)
        if self.milli is None:
            self._is_ours = self._is_ours and not self.has_group
            return False
        return await self._write(None)

    async def _write(self, milli: int | None) -> bool:
        group = self._layout.best_effort()
        if group is None:
            return False
        if milli == self.milli:
            self._is_ours = milli is not None
            return True
        try:
            self.milli = (await asyncio.to_thread(write_quota, group, milli)).milli
        except (OSError, ValueError) as error:
            _log.warning("quota of best-effort pods not written: group=%s: %s", group.cpu, one_line(error))
            return False
        self._is_ours = milli is not None
        return True
