"""The controller of Volcano Jobs: a state machine over the pods of a gang.

`policies`, `states`, `sync`, `kill` and `group` decide and are pure; `record` remembers; `plan`, with
`replicas` and `objects`, yields the calls that follow (`calls`); `executor` sends those of many jobs together;
`controller` turns watch events into work.
"""

from strato.controllers.job.controller import JobController

__all__ = ["JobController"]
