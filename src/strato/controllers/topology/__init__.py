"""HyperNodes: count the nodes of each, and discover HyperNodes from node labels or a fabric manager.

`members` counts, `settings` reads the configuration, `label_source` and `ufm_source` decide which HyperNodes there
should be, `controller` reads and writes.
"""

from strato.controllers.topology.controller import HyperNodeController
from strato.controllers.topology.ufm_source import HttpsFabric

__all__ = ["HttpsFabric", "HyperNodeController"]
