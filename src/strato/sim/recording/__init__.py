"""Logs of a cluster's scheduling: recorded by its scheduler or by an observer, then replayed or read at an instant.

`entries` defines what a log holds, `frames` and `segments` its files. `recorder` writes it, for a scheduler or for the
observer in `follow`. `log` reads it, `replay` repeats its cycles on a `replica` of the World, `state` and `travel` give
the objects at an instant, `workload` and `closedloop` simulate its jobs. All decisions come from the scheduler's cycle.
"""
