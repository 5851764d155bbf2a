"""Kill -9 in bursts of acknowledged writes: nothing that was acknowledged is lost, and revisions never go back.

``python -m tests.attack.kills --count 1000``: so many kills of a real API server with eight writers over HTTPS, and as
many of a process that writes to the journal alone and folds at every turn.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
from pathlib import Path

from tests.attack.cluster import Server, Writer, burst
from tests.server.journal_writer import kill_and_judge

_WRITERS = 8
_KILLS_PER_HOME = 50
_BYTES = 20_000


async def kill_servers(count: int, seed: int, directory: Path) -> tuple[list[str], int]:
    """Kill a server so often; return what was wrong, and how many writes were acknowledged."""
    rng = random.Random(seed)
    wrong: list[str] = []
    acknowledged = 0
    for home in range((count + _KILLS_PER_HOME - 1) // _KILLS_PER_HOME):
        server = Server(directory / f"home-{home}")
        writers = [Writer(f"w{number}") for number in range(_WRITERS)]
        try:
            await server.start()
            for kill in range(min(_KILLS_PER_HOME, count - home * _KILLS_PER_HOME)):
                before = sum(writer.number for writer in writers)
                work = burst(server, writers, rng.randrange, size=_BYTES)
                await asyncio.sleep(rng.uniform(0.02, 0.5))  # sometimes it folds, sometimes it has just begun
                server.kill()
                await work
                await server.start()
                stored = await server.stored()
                found = [line for writer in writers for line in writer.settle(stored)]
                wrong += [f"home {home}, kill {kill}: {line}" for line in found]
                acknowledged += sum(writer.number for writer in writers) - before - _WRITERS
            server.stop()
        finally:
            server.end()
        _progress(f"server killed {min(count, (home + 1) * _KILLS_PER_HOME)} times, {len(wrong)} findings")
    return wrong, acknowledged


def kill_writers(count: int, seed: int, directory: Path) -> list[str]:
    """Kill a process that writes to a journal so often; return what was wrong."""
    rng = random.Random(seed)
    wrong: list[str] = []
    last_revision = 1
    for kill in range(count):
        if kill % _KILLS_PER_HOME == 0:
            path, last_revision = directory / f"journal-{kill}.sqlite", 1
        found, last_revision = kill_and_judge(path, rng.randrange(1 << 30), rng.randrange(1, 400), last_revision)
        wrong += [f"journal kill {kill}: {line}" for line in found]
        if (kill + 1) % _KILLS_PER_HOME == 0:
            _progress(f"journal killed {kill + 1} times, {len(wrong)} findings")
    return wrong


def _progress(text: str) -> None:
    print(f"  {text}", flush=True)


def main(arguments: list[str]) -> int:
    """Run the campaign; return 1 when something was lost."""
    parser = argparse.ArgumentParser(prog="python -m tests.attack.kills")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="strato-kills-") as directory:
        of_writers = kill_writers(options.count, options.seed, Path(directory))
        of_servers, acknowledged = asyncio.run(kill_servers(options.count, options.seed, Path(directory)))
    for line in of_servers + of_writers:
        print(line)
    print(f"\n{'what was killed':<18} {'kills':>6} {'findings':>9}")
    print(f"{'API server':<18} {options.count:>6} {len(of_servers):>9}   {acknowledged} writes acknowledged")
    print(f"{'journal':<18} {options.count:>6} {len(of_writers):>9}")
    return int(bool(of_servers or of_writers))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
