"""The content of an allocation file as values: the settings of queues and users, and the defaults.

`allocationfile` reads them; queues that the file does not declare get their settings from the defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from strato.interop.yarn.fair.notation import Limit, unlimited
from strato.interop.yarn.fair.placement import PlacementRule
from strato.interop.yarn.fair.policies import QueuePolicy
from strato.interop.yarn.resources import MOST, MOST_INT, Amounts, ResourceTypes

ROOT = "root"
NEVER_MS = MOST
"""An infinite timeout."""
NO_AM_CHECK = -1.0
"""A ``maxAMShare`` that limits nothing."""

ANY_USER = "*"
NOBODY = " "


@dataclass(frozen=True, slots=True)
class Remark:
    """A warning about a line of a file that YARN itself accepts."""

    line: int
    where: str
    """Queue and element: ``root.a: minResources``."""
    text: str
    refuses: bool = False
    """Whether an importer must refuse the line, since its effect in YARN is not what the author wrote."""


@dataclass(frozen=True, slots=True)
class Declared:
    """One queue as the file declares it; None for settings that the file lacks."""

    name: str
    """Full name, from the root: ``root.a.b``."""
    line: int = 0
    is_parent: bool = False
    min_share: Amounts | None = None
    max_share: Limit | None = None
    max_child: Limit | None = None
    """``maxChildResources``: the maximum of children that the file does not declare."""
    max_container: Limit | None = None
    max_apps: int | None = None
    max_am_share: float | None = None
    weight: float | None = None
    policy: QueuePolicy | None = None
    min_timeout_ms: int | None = None
    fair_timeout_ms: int | None = None
    fair_threshold: float | None = None
    preemptable: bool = True
    reservable: bool = False
    acls: Mapping[str, str] = field(default_factory=dict)
    """Access lists by action, as `acl_text` writes them."""


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """The settings of a queue with every default filled in, except that -1 stands for the parent's value."""

    name: str
    min_share: Amounts
    max_share: Limit
    max_child: Limit | None
    max_container: Amounts
    max_apps: int
    max_am_share: float
    weight: float
    policy: QueuePolicy
    min_timeout_ms: int
    """-1 means the parent's."""
    fair_timeout_ms: int
    """-1 means the parent's."""
    fair_threshold: float
    """-1 means the parent's."""
    preemptable: bool
    reservable: bool
    acls: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    """Defaults of queues and users."""

    user_max_apps: int = MOST_INT
    queue_max_apps: int = MOST_INT
    queue_max: Limit | None = None
    max_am_share: float = 0.5
    policy: QueuePolicy = QueuePolicy.FAIR
    min_timeout_ms: int = NEVER_MS
    """Default of the root; every other queue inherits its parent's."""
    fair_timeout_ms: int = NEVER_MS
    fair_threshold: float = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocations:
    """An allocation file that YARN accepts."""

    types: ResourceTypes = field(default_factory=ResourceTypes)
    queues: Mapping[str, Declared] = field(default_factory=dict)
    """Declared queues by full name, in the order of the file."""
    user_max_apps: Mapping[str, int] = field(default_factory=dict)
    defaults: Defaults = field(default_factory=Defaults)
    placement: tuple[PlacementRule, ...] = ()
    remarks: tuple[Remark, ...] = ()

    def max_apps_of_user(self, user: str) -> int:
        """Return how many applications of a user may run at a time."""
        return self.user_max_apps.get(user, self.defaults.user_max_apps)

    def settings_of(self, name: str) -> QueueSettings:
        """Return the settings of a queue, declared or not, by its full name."""
        one = self.queues.get(name) or Declared(name)
        given, root = self.defaults, name == ROOT
        return QueueSettings(
            name=name,
            min_share=one.min_share if one.min_share is not None else self.types.filled(0),
            max_share=one.max_share or given.queue_max or unlimited(self.types),
            max_child=one.max_child,
            max_container=(one.max_container.amounts if one.max_container else ()) or self.types.filled(MOST),
            max_apps=one.max_apps if one.max_apps is not None else given.queue_max_apps,
            max_am_share=one.max_am_share if one.max_am_share is not None else given.max_am_share,
            weight=one.weight if one.weight is not None else 1.0,
            policy=one.policy or given.policy,
            min_timeout_ms=_timeout(one.min_timeout_ms, given.min_timeout_ms, root),
            fair_timeout_ms=_timeout(one.fair_timeout_ms, given.fair_timeout_ms, root),
            fair_threshold=(
                one.fair_threshold if one.fair_threshold is not None else given.fair_threshold if root else -1.0
            ),
            preemptable=one.preemptable,
            reservable=one.reservable,
            acls=one.acls,
        )


def _timeout(own: int | None, of_root: int, root: bool) -> int:
    if own is not None:
        return own
    return of_root if root else -1


def parent_of(name: str) -> str:
    """Return the full name of the parent; empty for the root."""
    return name.rpartition(".")[0]


def acl_text(text: str) -> str:
    """Return an access list as YARN writes it: users, a blank, groups; ``*`` for everybody, a blank for nobody."""
    if ANY_USER in text:
        return ANY_USER
    users, _, groups = text.partition(" ")
    return f"{_names(users)} {_names(groups)}"


def _names(text: str) -> str:
    return ",".join(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
