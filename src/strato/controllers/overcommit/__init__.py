"""CPU overcommit: the ratio by which each node's cpu is amplified, and how a ratio is lowered while pods use it."""

from strato.controllers.overcommit.controller import CpuOvercommitController

__all__ = ["CpuOvercommitController"]
