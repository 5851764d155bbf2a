"""The network domains that placed jobs lie in, updated before a session (spec scheduler-core 8, at open, 4)."""

from __future__ import annotations

from strato.scheduler.cache.world import World
from strato.scheduler.model.jobs import Job, Layout
from strato.scheduler.model.tasks import ALLOCATED_SET
from strato.scheduler.topology.hypernodes import NOWHERE, HyperNodeTree


def recover_domains(world: World) -> None:
    """Update the domain of each job and sub-job to where its tasks are placed.

    Only looks at the jobs that changed since the last session, unless the domain tree has changed.
    """
    if not world.laid_out:
        return
    tree = world.hyper_nodes.tree()
    if tree.problem:
        return
    jobs = world.changed if tree is world.recovered else world.laid_out
    world.recovered = tree
    for job in jobs.values():
        if job.layout is not None and job.layout.topological:
            _recover_job(world, tree, job, job.layout)


def _recover_job(world: World, tree: HyperNodeTree, job: Job, layout: Layout) -> None:
    if not job.allocated_count or (layout.allocated and layout.allocated not in tree.index):
        layout.allocated = ""
    found = False
    for sub in layout.subs.values():
        if not sub.allocated_count or (sub.allocated and sub.allocated not in tree.index):
            sub.allocated = ""
        if sub.network is not None and not sub.allocated and sub.allocated_count:
            # tasks on deleted nodes are skipped: those on the other nodes still determine the domain
            placed = (task.row for task in sub.tasks.values() if task.status in ALLOCATED_SET)
            sub.allocated = tree.name(tree.span([row for row in placed if row >= 0 and world.nodes.present[row]]))
            found = True
    if found:
        number = NOWHERE
        for sub in layout.subs.values():
            number = tree.lca(number, tree.find(sub.allocated))
        layout.allocated = tree.name(number)
