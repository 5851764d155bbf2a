"""A process that writes to a journal until it is killed: ``python -m tests.server.journal_writer FILE SEED``.

Prints ``try REVISION KEY put|delete`` before each write and ``done REVISION`` once it is acknowledged. `kill_and_judge`
runs one, kills it and compares what is left with what it said.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

from strato.server.journal import open_store
from strato.server.journal import writer as journals
from strato.server.store import Store

WRITERS, KEYS_EACH = 6, 5
_ROOT = Path(__file__).parents[2]


def kill_and_judge(path: Path, seed: int, acknowledged: int, last_revision: int) -> tuple[list[str], int]:
    """Let a process write, kill it after so many acknowledgements; return what is wrong then, and the last revision."""
    tried: dict[str, dict[int, str]] = {}
    key_of: dict[int, str] = {}
    done: dict[str, int] = {}
    for line in _crash(path, seed, acknowledged):
        word, number, *rest = line.split()
        if word == "try":
            key, what = rest
            tried.setdefault(key, {})[int(number)] = what
            key_of[int(number)] = key
        else:
            key = key_of[int(number)]
            done[key] = max(done.get(key, 0), int(number))
    store, journal = open_store(path)
    assert journal is not None
    journal.close()
    rows, revision = store.bucket("things").objects, store.revision
    wrong = []
    if min(key_of) <= last_revision or revision < max(done.values()):
        wrong.append(f"revisions went back: {last_revision}, {min(key_of)}, {max(done.values())}, {revision}")
    for key, row in rows.items():
        if row.body.split()[0] != str(row.revision).encode() or row.revision < done.get(key, 0):
            wrong.append(f"{key} lost an acknowledged write")
    for key, last in done.items():
        if key not in rows and "delete" not in [what for one, what in tried[key].items() if one >= last]:
            wrong.append(f"{key} is gone")
    return wrong, revision


def _crash(path: Path, seed: int, acknowledged: int) -> list[str]:
    """Return all that a process has said until it was killed."""
    command = [sys.executable, "-m", "tests.server.journal_writer", str(path), str(seed)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=_ROOT)
    assert child.stdout is not None
    lines = []
    while acknowledged:
        line = child.stdout.readline()
        assert line, "the writer ended by itself"
        lines.append(line)
        acknowledged -= line.startswith("done")
    child.send_signal(signal.SIGKILL)
    lines += child.stdout.read().splitlines()
    child.stdout.close()
    assert child.wait() == -signal.SIGKILL
    return lines


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
        assert await store.wait_durable() is None
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
