"""Utilisation of a node: one process per node measures it, and gives CPU to whoever needs it first.

`decisions` says what should change (pure functions), `sampling` reads the kernel's files, `koordinator` and `volcano`
hold the rules of those two systems as alternatives, and what is left here carries the decisions out.
"""
