"""Workloads: what jobs are, models that make them, and how they are scaled. Reading them from files is `sim.traces`."""
