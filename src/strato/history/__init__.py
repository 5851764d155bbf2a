"""Records and reports the history of a cluster: runs of jobs, the usage of their replicas, the utilisation of hosts.

`rows` defines the rows, `store` the file to which they are appended. `recorder` watches a cluster and appends;
`tracker` keeps the state of live jobs for it. `statistics` and `advising` evaluate rows; `prediction` predicts run
times from them, and `predictionintervals` calibrates predicted waits. Running jobs and measuring containers belongs to
other rooms. Source: spec utilisation 6.2 and 8.
"""

from strato.history.recorder import HistoryRecorder
from strato.history.store import HistoryStore

__all__ = ["HistoryRecorder", "HistoryStore"]
