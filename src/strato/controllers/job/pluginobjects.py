"""The objects of a job's plugins: created when the job begins, removed when it ends."""

from __future__ import annotations

from functools import partial

from strato.api.volcano.batch import Job
from strato.controllers.job.calls import Compute, Plan, ask
from strato.controllers.job.objects import ensure, remove
from strato.controllers.job.plugins.registry import controlled_key
from strato.controllers.job.record import JobRecord


def add_plugin_objects(record: JobRecord) -> Plan[None]:
    """Create the objects of the plugins of a new job, or bring them up to date."""
    job = record.require_job()
    record.plugins.check()
    for plugin in record.plugins.active:
        if controlled_key(plugin) in job.status.controlled_resources:
            if not record.plugins_fresh:
                for wanted in plugin.refreshed(job):
                    yield from ensure(wanted, job.metadata.namespace)
            continue
        make = partial(plugin.objects, job)
        for wanted in (yield from ask(Compute(make))) if plugin.computes_long else make():
            yield from ensure(wanted, job.metadata.namespace)
    record.plugins_fresh = True


def remove_plugin_objects(record: JobRecord, job: Job) -> Plan[dict[str, str]]:
    """Remove the objects of the plugins; returns the remaining ``controlledResources``."""
    controlled = dict(job.status.controlled_resources)
    for plugin in record.plugins.active:
        key = controlled_key(plugin)
        if key in controlled:
            for view, name in plugin.removed(job):
                yield from remove(view, name, job)
            del controlled[key]
    record.plugins_fresh = False
    return controlled
