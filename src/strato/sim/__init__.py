"""The simulator: runs traces through the real server, controllers and scheduler under a virtual clock.

`run.simulate` is the entry point; `traces` and `workloads` give it jobs, `strato.node.shapes` nodes. A trace runs in
one of two fidelities: `objects` with every API object, on a `cluster` of server, controllers, scheduler and hollow
nodes (the test harness uses that too), or `decisions` with the scheduler's cycle alone. Both fill a record (`results`),
from which `report` and `pictures` are made.
"""
