"""Utilisation of a node: one process per node measures it, and gives CPU to whoever needs it first.

`decisions` says what should change (pure functions), `handlers` ask it, `sampling` reads the kernel's files,
`koordinator` holds that system's rules as alternatives, and what is left here carries the decisions out.
"""
