"""Load on a cluster that is there: jobs at a rate whatever the cluster does, and what became of them.

`plan` says what is submitted when (pure), `lives` follows the pods (pure), `run` does it against any Kubernetes API,
`result` is what came out; `experiment` is the file of a performance test, with nodes, faults and expectations.
"""
