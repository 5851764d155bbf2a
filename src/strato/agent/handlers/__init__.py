"""What decides on a node, each in a file: it is given the host and its containers, and returns actions.

A handler of one's own is a subclass of `Handler` in a package (entry-point group ``strato.agent.handlers``) or in a
file; ``strato.testing.agent`` has the harness that tests one.
"""

from strato.agent.handlers.handler import Handler, NoOptions

__all__ = ["Handler", "NoOptions"]
