"""The journal: what makes the store's changes durable, in one SQLite file and a mark beside it.

- `writer`: commits in a thread and tells the store; `file`: the database itself, its checks, commits and folds
- `records`: rows and their checksums; `mark`: the newest acknowledged revision, kept outside the database and its WAL
- `rebuild`: writes a whole journal anew; used by `upgrade` (earlier layouts), `restore` and `salvage`
- `backup`: one file with all that a cluster needs to come back
"""

from strato.server.journal.errors import JournalError
from strato.server.journal.writer import OpenedStore, SqliteJournal, open_store

__all__ = ["JournalError", "OpenedStore", "SqliteJournal", "open_store"]
