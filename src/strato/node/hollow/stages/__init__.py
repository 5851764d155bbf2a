"""kwok's Stages, which describe how pods and nodes change over time.

`model` reads stages, `lifecycle` decides which one an object comes to, `player` watches the objects and writes. `jq`
and `gotemplate` implement the parts of these two languages that stages use.
"""

from strato.node.hollow.stages.model import Stage, parse_stages, read_stages

__all__ = ["Stage", "parse_stages", "read_stages"]
