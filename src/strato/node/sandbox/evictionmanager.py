"""`EvictionManager`: the pressure conditions of the machine, and evictions of pods because it runs short of disk.

It is named after the kubelet's.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence

from strato.clock import Clock
from strato.errors import one_line
from strato.node.sandbox.machine import Machine
from strato.node.sandbox.podworker import PodWorker
from strato.node.sandbox.pressure import PressureConditions, measure_machine, pressures
from strato.node.sandbox.settings import NodePeriods
from strato.node.sandbox.storage import disk_of, evictions, measure_all

_log = logging.getLogger(__name__)


class EvictionManager:
    """See the module."""

    def __init__(self, machine: Machine, clock: Clock, periods: NodePeriods, workers: Mapping[str, PodWorker]) -> None:
        self._machine = machine
        self._clock = clock
        self._seconds = periods.storage_seconds
        self._conditions = PressureConditions(periods.pressure_seconds)
        self._workers = workers

    def update_conditions(self) -> list[str]:
        """Bring the conditions of the machine up to date; return which have changed."""
        machine, before = self._machine, self._machine.pressures
        try:
            found = pressures(measure_machine(machine.node_paths.data_dir))
        except OSError as err:
            _log.warning("free resources of the machine cannot be measured: %s", one_line(err))
            return []
        machine.pressures = self._conditions.observe(found, self._clock.monotonic())
        return sorted(machine.pressures ^ before)

    async def run(self, report: Callable[[Sequence[str]], None]) -> None:
        """Measure until cancelled; evict pods over their disk limits and, if the disk is low, its greatest user."""
        while True:
            await self._clock.sleep(self._seconds)
            self._report_changed(report)
            try:
                await self._evict(report)
            except OSError as err:
                _log.warning("the pods' use of the disk cannot be measured: %s", one_line(err))

    def _report_changed(self, report: Callable[[Sequence[str]], None]) -> None:
        changed = self.update_conditions()
        if changed:
            report(changed)

    async def _evict(self, report: Callable[[Sequence[str]], None]) -> None:
        paths = self._machine.node_paths
        workers = {uid: worker for uid, worker in self._workers.items() if not worker.record.reason}
        places = [(worker.pod, paths.pod(uid), paths.memory_dir(uid)) for uid, worker in workers.items()]
        # in a thread, because a pod can create any number of files that have to be measured
        usages = await asyncio.to_thread(measure_all, places)
        is_freeing = any(worker.is_terminating for worker in self._workers.values())
        due = evictions(usages, disk_of(paths.data_dir), is_freeing=is_freeing)
        if due:  # report the conditions first: the disk may have filled since the last update
            self._report_changed(report)
        for eviction in due:
            if eviction.uid in self._workers:
                self._workers[eviction.uid].evict(eviction.message)
