"""Which pods ask for names beyond a machine that they cannot leave, so that their owners can be told why they fail."""

from __future__ import annotations

import re
from collections.abc import Callable

from strato.clock import Clock
from strato.node.services.records import DataPlaneReport

_SECONDS_BETWEEN = 60.0
"""Programs try again for long: one report in this time says as much about a pod as all of them."""
_HOST_NAME = re.compile(r"(?!.*\.arpa$)[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})+")
"""Names of hosts elsewhere: names of one word are misspelt ones of services, addresses are looked up for logs."""


class RefusedNames:
    """Reports each pod's first refused name, and again after a while.

    Args:
        clock: Says when a pod may be reported again.
        report: Takes the reports.
    """

    def __init__(self, clock: Clock, report: Callable[[DataPlaneReport], None]) -> None:
        self._clock, self._report = clock, report
        self._reported: dict[str, float] = {}
        """Address of a pod → when it was reported; there are no more of them than addresses of pods."""

    def add(self, client: str, name: str) -> None:
        """Take note of a name, in lower case, that a client asked for in vain."""
        now = self._clock.monotonic()
        before = self._reported.get(client)
        if (before is not None and now - before < _SECONDS_BETWEEN) or not _HOST_NAME.fullmatch(name):
            return
        self._reported[client] = now
        self._report(DataPlaneReport(client=client, name=name))
