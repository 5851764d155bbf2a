"""When a cron schedule fires: the latest time up to an instant, the next one after it, and how many lie between two.

Five fields, the usual descriptors (``@hourly``), ``@every 90m`` and a ``TZ=`` prefix are understood. Fields are read
by cronsim, which also knows what happens to a fixed hour when clocks change.

Source: volcano-controllers G5, G6.
"""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from strato.errors import StratoError
from strato.units import duration_seconds

_DESCRIPTORS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_EVERY: Final = "@every "
_ZONE_PREFIXES: Final = ("TZ=", "CRON_TZ=")
_FIELDS = 5


class InvalidSchedule(StratoError):
    """A schedule that cannot be read, or that never fires."""


class InvalidTimeZone(StratoError):
    """A time zone that does not exist here."""


def names_its_zone(text: str) -> bool:
    """Return whether a schedule has a time zone in its text, which takes precedence over ``timeZone``."""
    return "TZ" in text


def find_zone(name: str | None) -> tzinfo:
    """Return a time zone; UTC when none is named.

    Raises:
        InvalidTimeZone: There is none of that name.
    """
    if name is None:
        return UTC
    try:
        if not name or name.lower() == "local":
            raise ValueError(name)
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidTimeZone(f"unknown time zone {name!r}; give an IANA name such as Europe/Berlin") from None


class Schedule:
    """See the module. Instants are whole seconds since the epoch.

    Args:
        text: The schedule as written.
        zone: Where its hours are; a zone in the text itself comes first.

    Raises:
        InvalidSchedule: The text is no schedule.
        InvalidTimeZone: The text names a zone that does not exist.
    """

    def __init__(self, text: str, zone: tzinfo = UTC) -> None:
        self.text = text
        body = text.strip()
        if body.startswith(_ZONE_PREFIXES):
            prefix, _, body = body.partition(" ")
            zone = find_zone(prefix.partition("=")[2])
        self._zone = zone
        self._every_seconds = 0
        self._fields = ""
        body = body.strip()
        if body.startswith(_EVERY):
            self._every_seconds = _period(text, body.removeprefix(_EVERY))
        else:
            self._fields = _checked_fields(text, body)

    def next_after(self, instant: float) -> float:
        """Return the first firing after an instant.

        Raises:
            InvalidSchedule: It never fires.
        """
        if self._every_seconds:
            return float(int(instant) + self._every_seconds)
        ticks = CronSim(self._fields, datetime.fromtimestamp(int(instant), self._zone))
        while True:
            found = self._take(ticks)
            if found > instant:  # cronsim may yield an earlier instant when clocks go back and an hour occurs twice
                return found

    def latest(self, after: float, until: float) -> float | None:
        """Return the latest firing later than ``after`` and not later than ``until``.

        Raises:
            InvalidSchedule: It never fires.
        """
        if self._every_seconds:
            periods = int(until - int(after)) // self._every_seconds
            return float(int(after) + periods * self._every_seconds) if periods > 0 else None
        ticks = CronSim(self._fields, datetime.fromtimestamp(int(until) + 1, self._zone), reverse=True)
        while True:
            found = self._take(ticks)
            if found <= after:
                return None
            if found <= until:
                return found

    def count(self, after: float, until: float, limit: int) -> int:
        """Return how often it fires later than ``after`` and not later than ``until``, at most ``limit``."""
        if self._every_seconds:
            return max(0, min(limit, int(until - int(after)) // self._every_seconds))
        counted, instant = 0, after
        while counted < limit:
            instant = self.next_after(instant)
            if instant > until:
                break
            counted += 1
        return counted

    def _take(self, ticks: CronSim) -> float:
        try:
            return next(ticks).timestamp()
        except (StopIteration, OverflowError, RuntimeError, ValueError):  # years without a match
            raise InvalidSchedule(f"schedule {self.text!r} never fires") from None


def _period(text: str, period: str) -> int:
    try:
        seconds = int(duration_seconds(period.strip()))
    except ValueError as error:
        raise InvalidSchedule(f"schedule {text!r}: {error}") from None
    return max(1, seconds)


def _checked_fields(text: str, body: str) -> str:
    fields = _DESCRIPTORS.get(body, body).replace("?", "*")
    if fields.startswith("@"):
        known = ", ".join([*_DESCRIPTORS, "@every DURATION"])
        raise InvalidSchedule(f"schedule {text!r}: unrecognized descriptor; known are {known}")
    if len(fields.split()) != _FIELDS:
        raise InvalidSchedule(f"schedule {text!r}: expected exactly {_FIELDS} fields, found {len(fields.split())}")
    try:
        CronSim(fields, datetime(2024, 1, 1, tzinfo=UTC))
    except CronSimError as error:
        raise InvalidSchedule(f"schedule {text!r}: {error}") from None
    return fields
