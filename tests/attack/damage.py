"""Damage the files of real journals: a start finds everything that was acknowledged, or refuses with a way out.

``python -m tests.attack.damage --count 1000``. Journals are written by a real API server under load that is killed (or
stopped) at random moments. Each damage is judged by opening the journal as the server does, every fourth one by a
server that starts on it too. What was refused is salvaged: nothing may come back that was not, and what is missing must
be listed.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from strato.errors import StratoError
from strato.server.journal import open_store
from strato.server.journal.mark import mark_path, read_mark
from strato.server.journal.pages import PAGE_BYTES, database_pages, free_pages
from strato.server.journal.salvage import salvage
from tests.attack.cluster import Refused, Server, Writer, burst

DATABASE, WAL, MARK, SHM = "journal.sqlite", "journal.sqlite-wal", "journal.sqlite.mark", "journal.sqlite-shm"
_FRAME_BYTES, _WAL_HEADER_BYTES = PAGE_BYTES + 24, 32
_WAYS_OUT = ("strato restore", "strato doctor --salvage")
HOWS = ("killed", "folded", "large", "stopped")
"""How journals are left behind: killed in the WAL's first round, with much folded, after large writes; stopped."""
_SERVED = 4
"""One damage in so many is judged by a server too."""

Files = dict[str, bytes]
Objects = dict[tuple[str, str], tuple[int, bytes]]


@dataclass(frozen=True)
class Left:
    """What a server left behind."""

    how: str
    files: Files
    older: Files
    """Of the same journal, some writes earlier."""
    objects: Objects
    """All there is when nothing is damaged."""
    revision: int
    marked: int
    """What was acknowledged is of this revision or older."""
    writers: list[Writer]


async def build(directory: Path, how: str, seed: int) -> Left:
    """Load a server, and return what it left behind."""
    rng = random.Random(seed)
    server = Server(directory / how)
    writers = [Writer(f"w{number}") for number in range(8)]
    older: Files = {}
    try:
        for number in range(3):
            await server.start()
            work = burst(server, writers, rng.randrange, size=200_000 if how == "large" else 5_000)
            await asyncio.sleep(rng.uniform(0.2, 1.2))
            if number == 2 and how == "stopped":
                server.stop()
            else:
                server.kill()
            await work
            if number < 2:
                older = read_files(server.journal.parent)
                await server.start()
                await asyncio.sleep(1.5 if how == "folded" else 0.1)
                stored = await server.stored()
                assert [line for writer in writers for line in writer.settle(stored)] == []
                if how == "killed":
                    server.kill()
                else:
                    server.stop()  # all of it is in the database then
    finally:
        server.end()
    files = read_files(server.journal.parent)
    shutil.rmtree(server.home)
    scratch = directory / "baseline"
    put_files(scratch, files)
    marked = read_mark(mark_path(scratch / DATABASE))
    assert marked is not None
    objects, revision = opened(scratch)
    return Left(how, files, older, objects, revision, marked.revision, writers)


def read_files(directory: Path) -> Files:
    """Return the files of a journal."""
    return {name: (directory / name).read_bytes() for name in (DATABASE, WAL, MARK) if (directory / name).exists()}


def put_files(directory: Path, files: Files) -> None:
    """Put a journal's files into a directory, and nothing else."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    for name, content in files.items():
        (directory / name).write_bytes(content)


def opened(directory: Path) -> tuple[Objects, int]:
    """Open a journal as the server does, and return what it holds."""
    store, journal = open_store(directory / DATABASE)
    assert journal is not None
    journal.close()
    objects = {
        (bucket.resource, key): (row.revision, row.body)
        for bucket in store.buckets()
        for key, row in bucket.objects.items()
    }
    return objects, store.revision


# damages: each takes a file's content and returns another one


def _flip_a_bit(content: bytes, rng: random.Random, _unit: int) -> bytes:
    return _flip_at(content, rng.randrange(len(content)), rng)


def _flip_a_bit_near_the_start(content: bytes, rng: random.Random, _unit: int) -> bytes:
    return _flip_at(content, rng.randrange(min(len(content), 120)), rng)


def _flip_at(content: bytes, position: int, rng: random.Random) -> bytes:
    changed = bytearray(content)
    changed[position] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _zero_a_page(content: bytes, rng: random.Random, unit: int) -> bytes:
    start = rng.randrange(max(1, len(content) // unit)) * unit
    return content[:start] + bytes(min(unit, len(content) - start)) + content[start + unit :]


def _overwrite_some(content: bytes, rng: random.Random, _unit: int) -> bytes:
    start = rng.randrange(len(content))
    length = min(len(content) - start, rng.choice((1, 16, 512, 10_000)))
    return content[:start] + rng.randbytes(length) + content[start + length :]


def _shorten(content: bytes, rng: random.Random, _unit: int) -> bytes:
    return content[: rng.randrange(len(content))]


def _shorten_by_pages(content: bytes, rng: random.Random, unit: int) -> bytes:
    return content[: len(content) - len(content) % unit - unit * rng.randrange(0, max(1, len(content) // unit))]


def _copy_a_page_over_another(content: bytes, rng: random.Random, unit: int) -> bytes:
    pages = len(content) // unit
    if pages < 2:
        return _flip_a_bit(content, rng, unit)
    source, target = (one * unit for one in rng.sample(range(pages), 2))
    return content[:target] + content[source : source + unit] + content[target + unit :]


def _append_garbage(content: bytes, rng: random.Random, _unit: int) -> bytes:
    return content + rng.randbytes(rng.randrange(1, 10_000))


def _empty(_content: bytes, _rng: random.Random, _unit: int) -> bytes:
    return b""


_CHANGES: dict[str, Callable[[bytes, random.Random, int], bytes]] = {
    "bit flipped": _flip_a_bit,
    "bit flipped near start": _flip_a_bit_near_the_start,
    "page zeroed": _zero_a_page,
    "overwritten": _overwrite_some,
    "shortened": _shorten,
    "shortened by pages": _shorten_by_pages,
    "page copied": _copy_a_page_over_another,
    "garbage behind": _append_garbage,
    "emptied": _empty,
}
_UNITS = {DATABASE: PAGE_BYTES, WAL: _FRAME_BYTES, MARK: 4096}
_OF_A_PAGE = ("bit flipped", "page zeroed", "overwritten")
KINDS = (*_CHANGES, "missing", "older copy", "another's")


def damaged(left: Left, other: Left, file: str, kind: str, rng: random.Random) -> Files:
    """Return the files of a journal with one of them damaged."""
    files = dict(left.files)
    if file == SHM:
        return files | {SHM: rng.randbytes(32_768)}
    if kind == "missing":
        files.pop(file, None)
    elif kind in ("older copy", "another's"):
        replacement = (left.older if kind == "older copy" else other.files).get(file)
        files.pop(file, None)
        if replacement is not None:
            files[file] = replacement
    elif file == DATABASE and kind in _OF_A_PAGE and rng.random() < 0.75:
        # most pages of a journal that was written to for long are free: hit one that is not
        pages = database_pages(files[file])
        start = (rng.choice(sorted(pages.keys() - free_pages(pages)[0])) - 1) * PAGE_BYTES
        page = _CHANGES[kind](files[file][start : start + PAGE_BYTES], rng, PAGE_BYTES)
        files[file] = files[file][:start] + page + files[file][start + PAGE_BYTES :]
    elif files.get(file):
        start = _WAL_HEADER_BYTES if file == WAL and kind in ("page zeroed", "page copied") else 0
        content = files[file]
        files[file] = content[:start] + _CHANGES[kind](content[start:], rng, _UNITS[file])
    return files


@dataclass
class Result:
    """What came of one damage."""

    outcome: str
    """``whole``, ``refused`` or what is wrong."""
    kept: int = 0
    of: int = 0
    """Objects that a salvage kept, and objects there were."""


def judge(left: Left, files: Files, scratch: Path) -> Result:
    """Open damaged files and judge what comes of it."""
    put_files(scratch, files)
    try:
        objects, revision = opened(scratch)
    except StratoError as error:
        missing = [way for way in _WAYS_OUT if way not in str(error)]
        if missing:
            return Result(f"refused without a way out: {error}")
        return _judge_salvage(left, scratch)
    if objects == left.objects and revision == left.revision:
        return Result("whole")
    if revision >= left.marked and not _lost(left, objects):
        return Result("whole")  # what is missing was never acknowledged
    return Result(f"silent: revision {revision} of {left.revision}, {_difference(left, objects)} objects differ")


def _lost(left: Left, objects: Objects) -> list[tuple[str, str]]:
    """Return what was acknowledged and is not there or not what it was."""
    lost = [
        name
        for name, (revision, body) in left.objects.items()
        if revision <= left.marked and objects.get(name) != (revision, body) and not _is_newer(objects, name, revision)
    ]
    return lost + [name for name in objects if name not in left.objects and objects[name][0] <= left.marked]


def _is_newer(objects: Objects, name: tuple[str, str], revision: int) -> bool:
    return name in objects and objects[name][0] > revision


def _difference(left: Left, objects: Objects) -> int:
    return sum(left.objects.get(name) != objects.get(name) for name in left.objects.keys() | objects.keys())


def _judge_salvage(left: Left, scratch: Path) -> Result:
    result, aside = salvage(scratch / DATABASE)
    kept, revision = opened(scratch)
    if revision <= left.marked:
        return Result(f"salvaged with an old revision: {revision}")
    if aside is None:
        return Result("salvaged without keeping the damaged files")
    same = sum(kept.get(name) == stored for name, stored in left.objects.items())
    if _difference(left, kept) and not result.lost:
        return Result(f"salvage lost {_difference(left, kept)} objects and lists nothing")
    is_told = any("another's" in line for line in result.lost)
    for name, (revision, body) in kept.items():
        known = left.objects.get(name)
        if known is not None and known[0] == revision and known[1] != body and not is_told:
            return Result(f"salvage invented a state of {name}")
    return Result("refused", same, len(left.objects))


async def judge_server(left: Left, files: Files, directory: Path) -> str:
    """Start a server on damaged files; return what is wrong."""
    server = Server(directory / "served")
    shutil.rmtree(server.home, ignore_errors=True)
    put_files(server.journal.parent, files)
    try:
        await server.start()
        stored = await server.stored()
    except Refused as refused:
        text = str(refused)
        if "Traceback" in text or any(way not in text for way in _WAYS_OUT):
            return f"the server ended without a way out: {text[-300:]}"
        return ""
    finally:
        server.end()
    wrong = [line for writer in left.writers for line in writer.compare(stored)]
    return f"the server lost {wrong[0]}" if wrong else ""


async def run(
    count: int, seed: int, directory: Path, *, served: int = _SERVED, hows: Sequence[str] = HOWS
) -> tuple[list[str], str]:
    """Apply so many damages to journals left behind in these ways; return what was found, and the table."""
    rng = random.Random(seed)
    journals = [await build(directory, how, rng.randrange(1 << 30)) for how in hows]
    targets = [(file, kind) for file in (DATABASE, WAL, MARK) for kind in KINDS] + [(SHM, "garbage")]
    findings: list[str] = []
    counts: Counter[tuple[str, str, str]] = Counter()
    kept: Counter[tuple[str, str]] = Counter()
    servers = 0
    for number in range(count):
        file, kind = targets[number % len(targets)]
        left = rng.choice([one for one in journals if file != WAL or WAL in one.files])
        if file == DATABASE and rng.random() < 0.5:
            left = journals[-1]  # without a WAL, which may have each page anew
        other = rng.choice([one for one in journals if one is not left])
        files = damaged(left, other, file, kind, rng)
        result = judge(left, files, directory / "scratch")
        outcome = result.outcome if result.outcome in ("whole", "refused") else "finding"
        if number % served == 0:
            servers += 1
            wrong = await judge_server(left, files, directory)
            if wrong:
                outcome, result.outcome = "finding", wrong
        if outcome == "finding":
            findings.append(f"{number}: {file} {kind} of a journal that was {left.how}: {result.outcome}")
            print(findings[-1], flush=True)
        counts[file, kind, outcome] += 1
        kept[file, kind] += result.kept
        kept[file, f"{kind} of"] += result.of
        if (number + 1) % 50 == 0:
            print(f"  {number + 1} damages, {len(findings)} findings", flush=True)
    return findings, _table(targets, counts, kept, servers)


def _table(
    targets: list[tuple[str, str]], counts: Counter[tuple[str, str, str]], kept: Counter[tuple[str, str]], servers: int
) -> str:
    lines = [f"{'file':<20} {'damage':<24} {'whole':>6} {'refused':>8} {'findings':>9} {'kept by salvage':>16}"]
    for file, kind in targets:
        whole, refused, found = (counts[file, kind, outcome] for outcome in ("whole", "refused", "finding"))
        of = kept[file, f"{kind} of"]
        share = f"{100 * kept[file, kind] / of:.1f} %" if of else ""
        lines.append(f"{file:<20} {kind:<24} {whole:>6} {refused:>8} {found:>9} {share:>16}")
    totals = [
        sum(n for (_, _, one), n in counts.items() if one == outcome) for outcome in ("whole", "refused", "finding")
    ]
    lines.append(f"{'all':<20} {'':<24} {totals[0]:>6} {totals[1]:>8} {totals[2]:>9}   ({servers} by a server too)")
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    """Run the campaign; return 1 when a damage went unseen."""
    parser = argparse.ArgumentParser(prog="python -m tests.attack.damage")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="strato-damage-") as directory:
        findings, table = asyncio.run(run(options.count, options.seed, Path(directory)))
    print()
    for line in findings:
        print(line)
    print(table)
    return int(bool(findings))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
