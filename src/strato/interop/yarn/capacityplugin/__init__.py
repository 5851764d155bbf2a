"""The plugin ``yarncapacity``: jobs share queues as applications do under YARN's Capacity Scheduler.

`source` keeps the configuration file current, `mirror` the tree of queues and applications beside the world,
`making_room` what preemption remembers, `limits` what holds applications back, `plugin` answers.
"""
