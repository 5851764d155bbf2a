"""Puts load on an existing cluster: submits jobs at a given rate, however slow the cluster is, and measures latencies.

`plan` decides what is submitted when (pure), `latencies` keeps when each pod reached each stage (pure), `run` submits
to any Kubernetes API and watches the pods, `result` sums up; `experiment` reads the file of a performance test with
nodes, `faults` and expectations.
"""
