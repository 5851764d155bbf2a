"""The node agent: a process per node that measures utilisation and moves CPU time between containers.

`decisions` are pure functions that decide on changes, `handlers` call them with the policy's options, `sampling` reads
the kernel's files, `koordinator` has Koordinator's rules as alternatives; the modules here carry the decisions out.
"""
