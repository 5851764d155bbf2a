"""The scheduler: session, statement, kernels, binder, and around them a room for each of its larger parts.

`cache` holds what it knows, `actions` and `plugins` decide, `claims` and `topology` serve volumes, devices and network
domains, `reporting` says what came of it, `dryrun` runs all of that on copies.

Decisions are pure (`strato.scheduler.cycle.run_cycle`: a `World` in, a `Plan` out). The one object that acts,
`strato.scheduler.service.Scheduler`, feeds the world from informers and applies plans. Numba is imported only when a
scheduler or a cycle is.
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
