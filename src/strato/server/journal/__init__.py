"""The journal: makes the store's changes durable, in one SQLite file with a small file beside it, the mark.

- `writer`: commits in a thread and notifies the store; `file`: the database with its checks, commits and folds
- `records`: rows and their checksums; `mark`: the newest acknowledged revision, kept outside the database and its WAL
- `rebuild`: writes a whole new journal; used by `upgrade` (earlier layouts), `restore` and `salvage`
- `backup`: one file with everything needed to restore a cluster
"""

from strato.server.journal.errors import JournalError
from strato.server.journal.writer import OpenedStore, SqliteJournal, open_store

__all__ = ["JournalError", "OpenedStore", "SqliteJournal", "open_store"]
