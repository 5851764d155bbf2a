"""Limits of a queue on its number of applications and on the resources of their AMs."""

from __future__ import annotations

from dataclasses import dataclass

from strato.api import joblifetimes
from strato.interop.yarn.capacity.arithmetic import Arithmetic, single
from strato.interop.yarn.capacity.capacities import QueueCapacity
from strato.interop.yarn.capacity.configuration import CapacityConfiguration, QueueConfiguration
from strato.interop.yarn.capacity.preemptionmodel import DEFAULT_PARTITION
from strato.interop.yarn.capacity.userlimits import UNLIMITED
from strato.interop.yarn.resources import MOST_INT, Amounts


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationLimits:
    """The limits of one leaf queue."""

    maximum_applications: int
    """Most applications, waiting and running together; YARN rejects the next one."""
    maximum_applications_per_user: int


def application_limits(
    configuration: CapacityConfiguration, queue: QueueConfiguration, largest_absolute: float
) -> ApplicationLimits:
    """Return the limits on a leaf's number of applications.

    Args:
        configuration: What holds for all queues.
        queue: The leaf.
        largest_absolute: The leaf's largest absolute capacity over all partitions.
    """
    whole = configuration.maximum_applications
    if queue.maximum_applications is not None:
        most = queue.maximum_applications
    elif configuration.queue_maximum_applications is not None:
        most = min(whole, configuration.queue_maximum_applications)
    else:
        most = int(single(whole * single(largest_absolute)))
    per_user = most
    if queue.user_limit_factor != UNLIMITED:
        share = single(single(queue.user_limit_percent) / 100)
        per_user = int(min(MOST_INT, single(single(most * share) * single(queue.user_limit_factor))))
    return ApplicationLimits(maximum_applications=most, maximum_applications_per_user=min(most, per_user))


def am_limit(
    queue: QueueConfiguration,
    capacity: QueueCapacity,
    configuration: CapacityConfiguration,
    *,
    partition: str = DEFAULT_PARTITION,
    handed_down: Amounts | None = None,
) -> Amounts:
    """Return the limit on the resources of all AMs of a leaf.

    Args:
        queue: The leaf.
        capacity: Its capacities on the partition.
        configuration: What holds for all queues.
        partition: The partition.
        handed_down: What the leaf may use at present: its effective maximum, less what its ancestors' other queues use.
    """
    arithmetic, least = configuration.arithmetic, configuration.minimum_allocation
    usable = capacity.effective_minimum
    if partition == DEFAULT_PARTITION:
        limit = handed_down if handed_down is not None else capacity.effective_maximum
        limit = arithmetic.norm_down(limit, 1.0, least)
        usable = limit if arithmetic.fits(capacity.effective_minimum, limit) else capacity.effective_minimum
    return arithmetic.norm_up(usable, queue.am_percents.get(partition, 0.1), least)


def user_am_limit(
    queue: QueueConfiguration,
    capacity: QueueCapacity,
    configuration: CapacityConfiguration,
    queue_limit: Amounts,
    *,
    partition: str = DEFAULT_PARTITION,
    active_users: int = 0,
    user_weight: float = 1.0,
) -> Amounts:
    """Return the limit on the resources of one user's AMs in a leaf.

    Args:
        queue: The leaf.
        capacity: Its capacities on the partition.
        configuration: What holds for all queues.
        queue_limit: The limit of all users together.
        partition: The partition.
        active_users: Number of users with pending requests.
        user_weight: The user's weight.
    """
    arithmetic: Arithmetic = configuration.arithmetic
    percent = queue.am_percents.get(partition, 0.1)
    share = max(single(queue.user_limit_percent / 100), single(1 / max(active_users, 1)))
    share = min(1.0, single(share * single(user_weight)))
    factor = single(percent * share)
    if queue.user_limit_factor == UNLIMITED:
        return arithmetic.norm_up(capacity.effective_minimum, factor, configuration.minimum_allocation)
    factor = single(factor * single(queue.user_limit_factor))
    limit = arithmetic.norm_up(capacity.effective_minimum, factor, configuration.minimum_allocation)
    cluster = capacity.effective_maximum
    return limit if arithmetic.less_or_equal(cluster, limit, queue_limit) else queue_limit


def lifetime_seconds(queue: QueueConfiguration, requested: int) -> int:
    """Return the seconds after which an application is killed; -1 for never.

    Args:
        queue: The leaf.
        requested: The lifetime that the application asked for; 0 or less if it asked for none.
    """
    return joblifetimes.resolved(requested, queue.default_lifetime_seconds, queue.maximum_lifetime_seconds)
