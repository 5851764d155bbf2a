"""Which jobs wait for which others: who is to be looked at again when a job starts, ends or goes."""

from __future__ import annotations

from collections.abc import Iterable

from strato.api.meta import Key


class Dependents:
    """Jobs by what they wait for. A job that is looked at again and still waits is added again."""

    def __init__(self) -> None:
        self._by_job: dict[Key, dict[Key, None]] = {}

    def __bool__(self) -> bool:
        return bool(self._by_job)

    def add(self, key: Key, names: Iterable[str]) -> None:
        """Note that a job waits for others of its namespace."""
        for name in names:
            self._by_job.setdefault(Key(key.namespace, name), {})[key] = None

    def take(self, key: Key) -> Iterable[Key]:
        """Return who waits for a job, and forget them."""
        return self._by_job.pop(key, {})
