"""The plugin framework. This package exports all that a plugin imports: extension points, arguments, answers, types."""

from strato.scheduler.framework.arguments import arg
from strato.scheduler.framework.context import CycleContext
from strato.scheduler.framework.plugin import ABSTAIN, PERMIT, REJECT, Plugin
from strato.scheduler.model.answers import (
    BALANCED,
    LEAST,
    MOST,
    PACK,
    Evictor,
    ResourceTerm,
    StaticScore,
    Validity,
    Verdicts,
)
from strato.scheduler.model.jobs import Job, Task
from strato.scheduler.model.nodes import NodeTable, Rows
from strato.scheduler.model.queues import Queue
from strato.scheduler.model.reasons import Reason
from strato.scheduler.model.resources import FloatArray
from strato.scheduler.model.tasks import TaskClass

__all__ = [
    "ABSTAIN",
    "BALANCED",
    "LEAST",
    "MOST",
    "PACK",
    "PERMIT",
    "REJECT",
    "CycleContext",
    "Evictor",
    "FloatArray",
    "Job",
    "NodeTable",
    "Plugin",
    "Queue",
    "Reason",
    "ResourceTerm",
    "Rows",
    "StaticScore",
    "Task",
    "TaskClass",
    "Validity",
    "Verdicts",
    "arg",
]
