"""The fidelity of decisions only: runs a trace through the scheduler's cycle and World, without API server and objects.

`run.simulate_decisions` is the entry point. `beginning` fills the World before the first job, `templates` makes the pod
groups and pods that the scheduler sees, `engine` advances virtual time and runs cycles, `jobs` carries out what a cycle
decides, `activejobs` keeps the state of one job. Admission, the job controller's rules and the cycle are the same
functions that run in a cluster, so that decisions are the same; tests/sim/decisions compares them with those of the
other fidelity (`strato.sim.objects`).
"""
