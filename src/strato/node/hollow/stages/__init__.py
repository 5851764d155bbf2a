"""Lives of pods and nodes by stages, as kwok has them: what they say, what they make, and who plays them.

`model` reads them, `lifecycle` decides, `player` follows the objects and writes. `jq` and `gotemplate` are the parts of
the two languages that stages are written in.
"""

from strato.node.hollow.stages.model import Stage, parse_stages, read_stages

__all__ = ["Stage", "parse_stages", "read_stages"]
