"""Volcano's component flags that have no effect here: accepted, with one line in the log that says why.

Flags with an effect are options of the commands. This table has the rest, so that a manifest or a values file that was
written for Volcano's binaries starts Strato's components unchanged.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from strato.cli.goflags import GoSwitch

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ForeignFlag:
    """A flag without effect."""

    name: str
    why: str
    """Ends the sentence "has no effect: …"."""
    is_switch: bool = False


_LOGGING = "logs go to standard error; -v sets how much"
_THREADS = "one event loop does the work of all threads"
_RATE = "the client has no limit of its own; the API server's priority and fairness decides"
_ALL_NODES = "all nodes are always considered"

KLOG: tuple[ForeignFlag, ...] = (
    ForeignFlag("--logtostderr", _LOGGING, is_switch=True),
    ForeignFlag("--alsologtostderr", _LOGGING, is_switch=True),
    ForeignFlag("--add-dir-header", _LOGGING, is_switch=True),
    ForeignFlag("--one-output", _LOGGING, is_switch=True),
    ForeignFlag("--skip-headers", _LOGGING, is_switch=True),
    ForeignFlag("--skip-log-headers", _LOGGING, is_switch=True),
    ForeignFlag("--stderrthreshold", _LOGGING),
    ForeignFlag("--log-dir", _LOGGING),
    ForeignFlag("--log-file", _LOGGING),
    ForeignFlag("--log-file-max-size", _LOGGING),
    ForeignFlag("--log-backtrace-at", _LOGGING),
    ForeignFlag("--vmodule", _LOGGING),
    ForeignFlag("--log-flush-frequency", "every line is written at once"),
)
"""Flags of klog, Volcano's logging library; on every component. Also accepted with underscores."""

COMMON: tuple[ForeignFlag, ...] = (
    *KLOG,
    ForeignFlag("--feature-gates", "what there is is on; alpha kinds cost nothing until they are used"),
    ForeignFlag("--kube-api-qps", _RATE),
    ForeignFlag("--kube-api-burst", _RATE),
)
"""Flags that every component of Volcano's has."""

SCHEDULER: tuple[ForeignFlag, ...] = (
    ForeignFlag("--resync-period", "watches are complete, and the self-audit compares the cache with the API"),
    ForeignFlag(
        "--enable-pprof", "there is no such profile of a Python program; py-spy attaches to it", is_switch=True
    ),
    ForeignFlag("--priority-class", "priority classes always count", is_switch=True),
    ForeignFlag("--csi-storage", "storage capacities are read when volumes need them", is_switch=True),
    ForeignFlag("--minimum-feasible-nodes", _ALL_NODES),
    ForeignFlag("--minimum-percentage-nodes-to-find", _ALL_NODES),
    ForeignFlag("--percentage-nodes-to-find", _ALL_NODES),
    ForeignFlag("--plugins-dir", "Go plugins cannot be loaded; name Python files in the configuration"),
    ForeignFlag("--cache-dumper", "'strato explain' and the events say what the cache holds", is_switch=True),
    ForeignFlag("--cache-dump-dir", "'strato explain' and the events say what the cache holds"),
    ForeignFlag("--node-worker-threads", _THREADS),
    ForeignFlag("--gate-removal-worker-num", _THREADS),
    ForeignFlag("--scheduler-worker-count", _THREADS),
    ForeignFlag("--ignored-provisioners", "a provisioner without capacity information never excludes a node"),
    ForeignFlag("--resource-sync-timeout", "the first cycle waits until everything has been read"),
)
"""Flags of the scheduler (spec volcano-cli C2)."""

CONTROLLERS: tuple[ForeignFlag, ...] = (
    ForeignFlag("--worker-threads", _THREADS),
    ForeignFlag("--worker-threads-for-cronjob", _THREADS),
    ForeignFlag("--worker-threads-for-podgroup", _THREADS),
    ForeignFlag("--worker-threads-for-queue", _THREADS),
    ForeignFlag("--worker-threads-for-gc", _THREADS),
)
"""Flags of the controllers (spec volcano-cli C3)."""


def foreign_options(flags: tuple[ForeignFlag, ...]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that lets a `GoCommand` take the flags; each one given is logged once, when it starts."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def noting(**given: Any) -> None:
            # the innermost decorator runs last, when logging has been set up
            for flag in flags:
                if given.pop(_variable(flag)) is not None:
                    _log.info("flag %s has no effect: %s", flag.name, flag.why)
            command(**given)

        decorated: Callable[..., None] = noting
        for flag in flags:
            decorated = _option(flag)(decorated)
        return decorated

    return decorate


def _variable(flag: ForeignFlag) -> str:
    return "foreign_" + flag.name.strip("-").replace("-", "_")


def _option(flag: ForeignFlag) -> Callable[[Callable[..., None]], Callable[..., None]]:
    spellings = dict.fromkeys((flag.name, "--" + flag.name.strip("-").replace("-", "_")))
    if flag.is_switch:
        return click.option(*spellings, _variable(flag), cls=GoSwitch, type=bool, default=None, hidden=True)
    return click.option(*spellings, _variable(flag), default=None, hidden=True)
