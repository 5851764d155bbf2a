"""The controller of Volcano Jobs: a state machine over the pods of a gang.

`policies`, `states`, `sync`, `kill` and `group` decide and are pure; `record` remembers; `effects` and `procedures`
write; `plain` does the same for many jobs at once of which nothing special is asked; `controller` turns watch events
into work.
"""

from strato.controllers.job.controller import JobController, JobControllerOptions

__all__ = ["JobController", "JobControllerOptions"]
