"""Handlers, one per file: each gets events about the host and its containers, and returns actions.

Users' handlers are subclasses of `Handler` in a package (entry-point group ``strato.agent.handlers``) or in a file;
``strato.testing.agent`` has a harness for testing them.
"""

from strato.agent.handlers.handler import Handler, NoOptions

__all__ = ["Handler", "NoOptions"]
