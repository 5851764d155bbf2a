"""Reads the settings of the preemption policy, with their defaults."""

from __future__ import annotations

from strato.errors import InvalidInput, Problem
from strato.interop.yarn.capacity.preemptionmodel import IntraQueueOrder, PreemptionSettings
from strato.interop.yarn.hadoopxml import HadoopSettings

SCHEDULER = "yarn.scheduler.capacity."
PREEMPTION = "yarn.resourcemanager.monitor.capacity.preemption."
MONITOR_ENABLED = "yarn.resourcemanager.scheduler.monitor.enable"
_UNDERUTILISED = SCHEDULER + "ordering-policy.priority-utilization.underutilized-preemption."


class _Reader:
    """Reads values, and collects the problems of those that cannot be parsed."""

    def __init__(self, settings: HadoopSettings) -> None:
        self._settings = settings
        self.problems: list[Problem] = []

    def flag(self, name: str, default: bool) -> bool:
        text = self._settings.get(name).lower()
        if text in {"", "true", "false"}:
            return text == "true" if text else default
        self.problems.append(Problem(self._settings.where(name), f"{text!r} is neither true nor false"))
        return default

    def number(self, name: str, default: float, least: float = 0.0, most: float = float("inf")) -> float:
        text = self._settings.get(name)
        if not text:
            return default
        try:
            value = float(text)
        except ValueError:
            self.problems.append(Problem(self._settings.where(name), f"{text!r} is no number"))
            return default
        if not least <= value <= most:
            expected = f"between {least:g} and {most:g}" if most != float("inf") else f"of at least {least:g}"
            self.problems.append(Problem(self._settings.where(name), f"{text!r}: expected a number {expected}"))
            return default
        return value


def preemption_settings(settings: HadoopSettings) -> PreemptionSettings:
    """Return the settings of the preemption policy.

    Raises:
        InvalidInput: Lists all values that cannot be parsed.
    """
    read = _Reader(settings)
    default = PreemptionSettings()

    def flag(name: str, otherwise: bool) -> bool:
        return read.flag(PREEMPTION + name, otherwise)

    def number(name: str, otherwise: float, most: float = float("inf")) -> float:
        return read.number(PREEMPTION + name, otherwise, most=most)

    order = settings.get(PREEMPTION + "intra-queue-preemption.preemption-order-policy", default.intra_queue_order)
    orders = {each.value: each for each in IntraQueueOrder}
    if order.lower() not in orders:
        where = settings.where(PREEMPTION + "intra-queue-preemption.preemption-order-policy")
        read.problems.append(Problem(where, f"{order!r}: expected {' or '.join(orders)}"))
    found = PreemptionSettings(
        observe_only=flag("observe_only", default.observe_only),
        monitoring_interval_ms=int(number("monitoring_interval", default.monitoring_interval_ms)),
        max_wait_before_kill_ms=int(number("max_wait_before_kill", default.max_wait_before_kill_ms)),
        total_preemption_per_round=number("total_preemption_per_round", default.total_preemption_per_round, 1.0),
        max_ignored_over_capacity=number("max_ignored_over_capacity", default.max_ignored_over_capacity),
        natural_termination_factor=number("natural_termination_factor", default.natural_termination_factor, 1.0),
        select_based_on_reserved_containers=flag("select_based_on_reserved_containers", False),
        additional_res_balance_based_on_reserved_containers=flag(
            "additional_res_balance_based_on_reserved_containers", False
        ),
        balance_after_satisfied=flag("preemption-to-balance-queue-after-satisfied.enabled", False),
        balance_max_wait_before_kill_ms=int(
            number(
                "preemption-to-balance-queue-after-satisfied.max-wait-before-kill",
                default.balance_max_wait_before_kill_ms,
            )
        ),
        intra_queue=flag("intra-queue-preemption.enabled", False),
        intra_queue_order=orders.get(order.lower(), default.intra_queue_order),
        intra_queue_minimum_threshold=number(
            "intra-queue-preemption.minimum-threshold", default.intra_queue_minimum_threshold
        ),
        intra_queue_max_allowable_limit=number(
            "intra-queue-preemption.max-allowable-limit", default.intra_queue_max_allowable_limit
        ),
        conservative_drf=flag("conservative-drf", default.conservative_drf),
        intra_queue_conservative_drf=flag("intra-queue-preemption.conservative-drf", True),
        lazy=read.flag(SCHEDULER + "lazy-preemption-enabled", False),
        priority_reservations=read.flag(_UNDERUTILISED + "enabled", False),
        reserved_container_delay_ms=int(
            read.number(_UNDERUTILISED + "reserved-container-delay-ms", default.reserved_container_delay_ms)
        ),
        allow_move_reservation=read.flag(_UNDERUTILISED + "allow-move-reservation", False),
    )
    if read.problems:
        raise InvalidInput(settings.file or "preemption settings", read.problems)
    return found
