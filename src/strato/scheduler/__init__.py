"""The scheduler: rooms from `model` (types only) up to `service`, each of which imports only those below it.

`cache` holds what is known, `framework` what a plugin is, `ordering` and `placement` say who is next and where to;
`actions`, `optimal` and `plugins` decide, `reporting` says what came of it, `binding` carries it out, `dryrun` runs all
of that on copies.

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
