"""Which jobs wait for which other jobs, and are therefore synced when one of these starts, ends or is deleted."""

from __future__ import annotations

from collections.abc import Iterable

from strato.api.meta import Key


class Dependents:
    """Waiting jobs by the job they wait for. `take` removes them; the sync of a job that still waits adds it again."""

    def __init__(self) -> None:
        self._by_job: dict[Key, dict[Key, None]] = {}

    def __bool__(self) -> bool:
        return bool(self._by_job)

    def add(self, key: Key, names: Iterable[str]) -> None:
        """Note that a job waits for others of its namespace."""
        for name in names:
            self._by_job.setdefault(Key(key.namespace, name), {})[key] = None

    def take(self, key: Key) -> Iterable[Key]:
        """Return the jobs that wait for a job, and remove them."""
        return self._by_job.pop(key, {})
