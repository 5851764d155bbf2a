"""What happened: runs of jobs, what their replicas used and how busy hosts were, recorded and reported.

Belongs here: the rows (`rows`), the file they are appended to (`store`), what is known of live jobs (`tracker`), the
part that watches a cluster and appends (`recorder`), and what follows from rows (`statistics`, `advice`). Does not: who
runs jobs or measures containers. Source: spec utilisation 6.2 and 8.
"""

from strato.history.recorder import Recorder
from strato.history.store import HistoryStore

__all__ = ["HistoryStore", "Recorder"]
