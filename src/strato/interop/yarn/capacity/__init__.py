"""YARN's Capacity Scheduler: its configuration, capacities, limits, orders, placement and preemption as pure decisions.

These modules neither import Kubernetes types nor wait or read a clock. Their callers are the plugin `yarncapacity`, the
importer, and the tests that compare their decisions with recorded ones of YARN.
"""
