"""The plugin ``yarnfair``: queues, jobs and pods share as queues, applications and containers do in YARN.

`sources` reads the allocations (a file, or annotations of Queue objects); `mirror` builds, each cycle, YARN's tree of
queues and applications from the world; `preemption` runs it and keeps its state; `plugin` implements the
extension points with these.
"""
