"""The plugin ``yarnfair``: queues, jobs and pods share as YARN's Fair Scheduler lets queues, applications, containers.

`units` carries amounts over, `sources` finds the allocations (a file, or annotations of Queue objects), `mirror` keeps
the tree of queues and applications beside the world, `making_room` keeps what preemption remembers, `plugin` answers.
"""
