"""Every action and every built-in plugin by its name in the configuration; nothing registers itself."""

from __future__ import annotations

from strato.scheduler.actions.allocate import Allocate
from strato.scheduler.actions.backfill import Backfill
from strato.scheduler.actions.base import Action
from strato.scheduler.actions.enqueue import Enqueue
from strato.scheduler.actions.gangevict import GangPreempt, GangReclaim
from strato.scheduler.actions.preempt import Preempt
from strato.scheduler.actions.reclaim import Reclaim
from strato.scheduler.actions.shuffle import Shuffle
from strato.scheduler.framework.plugin import Plugin
from strato.scheduler.optimal.action import Flow
from strato.scheduler.plugins.binpack import Binpack
from strato.scheduler.plugins.capacity import Capacity
from strato.scheduler.plugins.cdp import Cdp
from strato.scheduler.plugins.conformance import Conformance
from strato.scheduler.plugins.deviceshare import DeviceShare
from strato.scheduler.plugins.drf import Drf
from strato.scheduler.plugins.easy import Easy
from strato.scheduler.plugins.extender import Extender
from strato.scheduler.plugins.fgd import Fgd
from strato.scheduler.plugins.gang import Gang
from strato.scheduler.plugins.gavel import Gavel
from strato.scheduler.plugins.network_topology_aware import NetworkTopologyAware
from strato.scheduler.plugins.nodegroup import NodeGroup
from strato.scheduler.plugins.nodeorder import NodeOrder
from strato.scheduler.plugins.numaaware import NumaAware
from strato.scheduler.plugins.overcommit import Overcommit
from strato.scheduler.plugins.pdb import Pdb
from strato.scheduler.plugins.predicates import Predicates
from strato.scheduler.plugins.priority import Priority
from strato.scheduler.plugins.proportion import Proportion
from strato.scheduler.plugins.rescheduling import Rescheduling
from strato.scheduler.plugins.resourcequota import ResourceQuota
from strato.scheduler.plugins.resourcestrategy import ResourceStrategyFit
from strato.scheduler.plugins.sla import Sla
from strato.scheduler.plugins.tasktopology import TaskTopology
from strato.scheduler.plugins.tdm import Tdm
from strato.scheduler.plugins.usage import Usage

ACTIONS: dict[str, type[Action]] = {
    "allocate": Allocate,
    "backfill": Backfill,
    "enqueue": Enqueue,
    "flow": Flow,
    "gangpreempt": GangPreempt,
    "gangreclaim": GangReclaim,
    "preempt": Preempt,
    "reclaim": Reclaim,
    "shuffle": Shuffle,
}
"""Every action by its name in the configuration."""

PLUGINS: dict[str, type[Plugin]] = {
    plugin.name: plugin
    for plugin in (
        Binpack,
        Capacity,
        Conformance,
        Drf,
        Easy,
        Gang,
        NetworkTopologyAware,
        NodeOrder,
        Overcommit,
        Predicates,
        Priority,
        Proportion,
        ResourceStrategyFit,
        Cdp,
        NodeGroup,
        Pdb,
        ResourceQuota,
        Tdm,
        Usage,
        Rescheduling,
        TaskTopology,
        DeviceShare,
        Extender,
        Fgd,
        Gavel,
        NumaAware,
        Sla,
    )
}
"""Every built-in plugin by its name in the configuration."""
