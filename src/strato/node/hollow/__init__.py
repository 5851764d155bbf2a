"""Hollow nodes: simulated nodes without a machine, tens of thousands of them, for simulations and scale tests.

`nodes` registers them and keeps them alive in the API, `pods` simulates the pods bound to them. `runplan` and
`commandlines` decide how long a container runs and how it ends; `cpu` shares a node's CPU among pods with a demand.
`stages` plays kwok's Stage objects instead.
"""

from strato.node.hollow.behaviour import HollowBehaviour
from strato.node.hollow.nodes import HollowNodes
from strato.node.hollow.offers import CAPACITY, HollowOffer, offers

__all__ = ["CAPACITY", "HollowBehaviour", "HollowNodes", "HollowOffer", "offers"]
