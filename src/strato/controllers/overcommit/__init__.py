"""CPU overcommit: which ratio each node's cpu is amplified by, and how a ratio is lowered under load."""

from strato.controllers.overcommit.controller import CpuOvercommitController

__all__ = ["CpuOvercommitController"]
