"""A process that writes to a journal until it is killed: ``python -m tests.server.journal_writer FILE SEED``.

Prints ``try REVISION KEY put|delete`` before each write and ``done REVISION`` once it is acknowledged.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
from pathlib import Path

from strato.server.journal import open_store
from strato.server.journal import writer as journals
from strato.server.store import Store

WRITERS, KEYS_EACH = 6, 5


def say(line: str) -> None:
    os.write(1, f"{line}\n".encode())


async def write(store: Store, rng: random.Random, writer: int) -> None:
    while True:
        key = f"{writer}/{rng.randrange(KEYS_EACH)}"
        deletes = store.bucket("things").latest(key) is not None and rng.random() < 0.3
        revision = store.next_revision()
        say(f"try {revision} {key} {'delete' if deletes else 'put'}")
        body = None if deletes else f"{revision} {'x' * rng.randrange(2000)}".encode()
        store.write("things", key, body, b"gone" if deletes else None)
        assert await store.settled() is None
        say(f"done {revision}")


async def main(path: Path, seed: int) -> None:
    # Folds and full logs at every turn: what is rare in life shall be frequent here.
    journals._FOLD_BYTES, journals._LOG_LIMIT_BYTES, journals._IDLE_SECONDS = 8_000, 16_000, 0.001
    store, journal = open_store(path)
    assert journal is not None
    journal.start(store)
    rng = random.Random(seed)
    await asyncio.gather(*(write(store, random.Random(rng.random()), writer) for writer in range(WRITERS)))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
