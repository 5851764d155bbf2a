"""The scheduler: rooms from `model` (types only) up to `service`, each of which imports only those below it.

`cache` keeps the scheduler's view of the cluster; `framework` defines plugins; `ordering` picks the next job and
`placement` its nodes; `actions`, `optimal` and `plugins` decide; `reporting` writes statuses, conditions and
explanations; `binding` carries out binds and evictions; `dryrun` and `shadow` run the same code on copies.

Decisions are pure (`strato.scheduler.cycle.run_cycle`: a `World` in, a `Plan` out). Only
`strato.scheduler.service.Scheduler` acts: it feeds the world from informers and applies plans. Importing this package
does not import Numba; importing `Scheduler` or `strato.scheduler.cycle` does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from strato.scheduler.service import Scheduler

__all__ = ["Scheduler"]


def __getattr__(name: str) -> Any:
    """Import `Scheduler` on first use, so that importing this package stays cheap."""
    if name == "Scheduler":
        from strato.scheduler.service import Scheduler

        return Scheduler
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
