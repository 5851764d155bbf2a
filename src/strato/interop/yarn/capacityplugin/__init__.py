"""The plugin ``yarncapacity``: jobs share queues as applications do under YARN's Capacity Scheduler.

`source` follows the configuration file; `mirror` builds, each cycle, YARN's tree of queues and applications from the
world; `preemption` runs it and keeps its state; `limits` computes limits; `plugin` implements the extension
points with these.
"""
