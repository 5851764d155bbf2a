"""YARN's Fair Scheduler: its allocation file, placement, shares, order, assignment and preemption (spec yarn, part A).

Everything here decides over plain numbers and knows nothing of Kubernetes: `notation`, `allocation`, `placement` and
`options` read what people wrote; `shares` and `order` are the formulas; `tree`, `runnable` and `starvation` apply them
to queues and applications; `engine` is the whole scheduler with nodes and heartbeats, against which the rest is judged.
"""
