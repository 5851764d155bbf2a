"""Hollow nodes: nodes without a machine behind them, by the ten thousand, for simulations and scale tests.

`nodes` is their life in the API, `pods` that of the pods bound to them; `runplan` and `commandlines` decide how long a
container runs and how it ends, `cpu` shares the nodes' CPU among pods that say what they want. `stages` are lives as
kwok describes them.
"""

from strato.node.hollow.behaviour import HollowBehaviour
from strato.node.hollow.nodes import HollowNodes
from strato.node.hollow.offers import CAPACITY, HollowOffer, offers

__all__ = ["CAPACITY", "HollowBehaviour", "HollowNodes", "HollowOffer", "offers"]
