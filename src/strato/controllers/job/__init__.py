"""The controller of Volcano Jobs: a state machine over the pods of a gang.

`policies`, `states`, `sync`, `kill` and `group` decide and are pure. `record` holds what the controller knows of one
job. `plan`, with `replicas` and `objects`, yields the API calls (`calls`) that a decision requires; `executor` sends
the calls of many jobs together. `jobevents` and `controller` turn watch events into plans.
"""

from strato.controllers.job.controller import JobController

__all__ = ["JobController"]
