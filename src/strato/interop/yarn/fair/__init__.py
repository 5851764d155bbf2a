"""YARN's Fair Scheduler: its allocation file, placement, shares, order, assignment and preemption (spec yarn, part A).

The modules decide over plain numbers, without Kubernetes types: `notation`, `allocation`, `placement` and `options`
read configuration; `shares` and `order` are the formulas; `tree`, `runnable` and `starvation` apply them to queues and
applications; `engine` is the whole scheduler with nodes and heartbeats, which tests compare with YARN's recorded
behaviour.
"""
