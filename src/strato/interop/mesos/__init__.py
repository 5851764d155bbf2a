"""Mesos' master as its frameworks know it: offers out of the free room of this cluster (spec mesos)."""
