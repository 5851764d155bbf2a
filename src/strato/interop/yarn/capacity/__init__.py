"""YARN's Capacity Scheduler: its configuration, capacities, limits, orders, placement and preemption as pure decisions.

Numbers in, numbers out: nothing here knows Kubernetes, waits or reads a clock. The plugin `yarncapacity` and the
importer call these decisions, and so do the cases that compare them with YARN's answers.
"""
