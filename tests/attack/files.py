"""Files of others, damaged: traces, experiments, logs, XML, stages, scripts, configurations and what the kernel says.

``python -m tests.attack.files --count N --seed S``. Each case takes a sample of one door (`tests.attack.filedoors`),
damages it by bytes, by words or as a document, and lets the door read it, through the command's own entry or the
function behind it. What counts as a finding: any error but those that the door has for files it refuses, more than two
seconds of CPU, more than 512 MiB of memory beyond what an idle reader has, and a reader that dies. A child reads, under
these limits; a case is repeated alone by ``--case NUMBER`` with the same seed.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import json
import mmap
import os
import random
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from strato.errors import StratoError
from tests.attack.filedoors import Door, Files, doors, resealed
from tests.attack.mutations import Mutator

LIMIT_SECONDS: Final = 2.0
LIMIT_BYTES: Final = 512 << 20
MOST_SECONDS: Final = 20
"""Of CPU, after which a case is ended."""
LARGEST: Final = 1 << 18
"""Bytes of a damaged file: what grows with the square shows in them."""
SLOW_SHARE: Final = 5
"""Doors that run a command get one of so many cases that others get."""
WORDS: Final = (
    "", "0", "-1", "-0", "1", "1e308", "1e309", "-1e309", "nan", "inf", "-inf", "9" * 400, "9" * 5000, "0x10",
    "1_000", "٣", "²", "9223372036854775808", "18446744073709551616", "-9223372036854775809", "99999999999",
    "4294967297", "1.5", "0.1", "1h", "-1h", "9" * 30 + "h", "1e3s", "1d", "2024-13-01", "9999-12-31T23:59:59Z",
    "0001-01-01T00:00:00+23:59", "true", "null", "~", "[]", "{}", "[1]", "*a", "&a", "<<: *a",
    "!!python/object:os.system", "!!binary x", "? x", "|", ">", "---", "%s", "%n", "${a}", "${${a}}", "$(x)", "{{",
    "}}", "{{ range . }}", "..", "../../etc/passwd", "/dev/zero", "/dev/stdin", "/proc/self/mem", "a/b", "//", "\x00",
    "\x1b[31m", "\u2028", "\ud800", "é", "\U0001f600", "\r\n", "\n", "\t", ",", ";", "|", ":", "=", "'", '"', "`",
    "\\", "#", "<", ">", "&", "</script><script>", "<!DOCTYPE a [<!ENTITY b 'c'>]>", "&b;", "<![CDATA[", "a" * 300,
    "a." * 200, "-" * 300, "[" * 3000, "{" * 3000, "(" * 3000, "<a>" * 3000, "- " * 3000, "0-99999999999", "1x" * 100,
    "a..z", "0..999999", "1000000x1cpu", "lublin:jobs=99999999", "*/0 * * * *", "(a+)+$", "=1+1", "@x", "x" * 70000,
)  # fmt: skip
_NUMBER: Final = re.compile(rb"-?\d+(?:\.\d+)?")
_WORD: Final = re.compile(rb"[A-Za-z0-9_.-]+")


class _Damage:
    """Damages files.

    Args:
        rng: Chooses.
        others: Content that may be put in.
    """

    def __init__(self, rng: random.Random, others: Sequence[bytes]) -> None:
        self._rng, self._others = rng, others
        self._mutator = Mutator(rng, (), {}, {})

    def of(self, name: str, data: bytes) -> bytes:
        """Return a file's content with something wrong."""
        rng = self._rng
        way = rng.random()
        if name in ("log", "plain") and way < 0.7:
            return resealed(data, self.bytes)
        if name.endswith(".gz") and way < 0.6:
            return gzip.compress(self.bytes(gzip.decompress(data)), 1)
        if way < 0.45 and (changed := self._document(name, data)) is not None:
            return changed if rng.random() < 0.8 else self.bytes(changed)
        return self.bytes(data)

    def bytes(self, data: bytes) -> bytes:
        """Return bytes of which some are wrong."""
        for _ in range(self._rng.choice((1, 1, 2, 3, 6))):
            data = self._rng.choice(_WAYS)(self, data)[:LARGEST]
        return data

    def _document(self, name: str, data: bytes) -> bytes | None:
        """Return a document of JSON or YAML with parts of other types; None where it is none."""
        if not data.strip() or name.endswith((".csv", ".swf", ".txt", ".xml", ".parquet")):
            return None
        try:
            found = list(yaml.load_all(data, getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
        except (yaml.YAMLError, ValueError):
            return None
        if not any(isinstance(one, dict | list) for one in found):
            return None
        for _ in range(self._rng.choice((1, 1, 2, 4))):
            at = self._rng.randrange(len(found))
            found[at] = self._mutator.mutated(found[at])
        return "\n---\n".join(json.dumps(one, default=str) for one in found).encode("utf-8", "surrogatepass")

    def word(self) -> bytes:
        return self._rng.choice(WORDS).encode("utf-8", "surrogatepass")

    def place(self, data: bytes) -> int:
        return self._rng.randrange(len(data) + 1)

    def flip(self, data: bytes) -> bytes:
        if not data:
            return data
        at = self._rng.randrange(len(data))
        return data[:at] + bytes([data[at] ^ (1 << self._rng.randrange(8))]) + data[at + 1 :]

    def cut(self, data: bytes) -> bytes:
        at = self.place(data)
        return data[:at] + data[at + self._rng.choice((1, 2, 10, 100)) :]

    def end(self, data: bytes) -> bytes:
        return data[: self.place(data)]

    def put(self, data: bytes) -> bytes:
        at = self.place(data)
        return data[:at] + self.word() + data[at:]

    def replace(self, data: bytes) -> bytes:
        found = list((_NUMBER if self._rng.random() < 0.5 else _WORD).finditer(data[:20_000]))
        if not found:
            return self.put(data)
        chosen = self._rng.choice(found)
        return data[: chosen.start()] + self.word() + data[chosen.end() :]

    def repeat(self, data: bytes) -> bytes:
        at = self.place(data)
        part = data[at : at + self._rng.choice((1, 2, 5, 30, 300))]
        times = min(self._rng.choice((2, 50, 5_000, 60_000)), LARGEST // max(1, len(part)))
        return data[:at] + part * times + data[at:]

    def line(self, data: bytes) -> bytes:
        lines = data.split(b"\n")
        at = self._rng.randrange(len(lines))
        way = self._rng.random()
        if way < 0.3:
            del lines[at]
        elif way < 0.6:
            lines.insert(self._rng.randrange(len(lines)), lines[at])
        else:
            lines[at : at + 1] = [lines[at]] * min(self._rng.choice((3, 100, 3000)), LARGEST // (len(lines[at]) + 1))
        return b"\n".join(lines)

    def splice(self, data: bytes) -> bytes:
        other = self._rng.choice(self._others)
        start, at = self.place(other), self.place(data)
        return data[:at] + other[start : start + self._rng.choice((5, 50, 500))] + data[at:]

    def noise(self, data: bytes) -> bytes:
        at = self.place(data)
        return data[:at] + self._rng.randbytes(self._rng.choice((1, 4, 40))) + data[at:]


_WAYS: Final[Sequence[Callable[[_Damage, bytes], bytes]]] = (
    _Damage.flip, _Damage.cut, _Damage.end, _Damage.put, _Damage.put, _Damage.replace, _Damage.replace, _Damage.replace,
    _Damage.repeat, _Damage.line, _Damage.splice, _Damage.noise,
)  # fmt: skip


class Cases:
    """The cases of a seed, each for itself.

    Args:
        seed: Of all of them.
        only: Part of the names of doors; empty is all.
    """

    def __init__(self, seed: int, only: str = "") -> None:
        self._seed = seed
        found = [door for door in doors() if only in door.name]
        self._turns = [door for door in found for _ in range(1 if door.is_slow else SLOW_SHARE)]
        self._others = [next(iter(sample.values())) for door in found for sample in door.samples]
        self.folder = Path(tempfile.mkdtemp(prefix="strato-files-"))

    def warm_up(self) -> None:
        """Read each sample as it is, so that what is loaded once is loaded."""
        for door in dict.fromkeys(map(id, self._turns)):
            found = next(one for one in self._turns if id(one) == door)
            for sample in found.samples:
                for number in range(4 if found.is_slow else 1):
                    self._read(found, sample, random.Random(number))

    def run(self, number: int) -> str:
        """Read a case; return its door's name.

        Raises:
            Exception: What the door raised and must not.
        """
        rng = random.Random(f"{self._seed}/{number}")
        door = rng.choice(self._turns)
        sample = dict(rng.choice(door.samples))
        name = next(iter(sample))
        sample[name] = _Damage(rng, self._others).of(name, sample[name])
        self._read(door, sample, rng)
        return door.name

    def _read(self, door: Door, sample: Files, rng: random.Random) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        for name, data in reversed(sample.items()):
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        random.seed(1)
        with contextlib.suppress(StratoError, *door.allowed):
            door.read(self.folder / next(iter(sample)), rng)

    def door_of(self, number: int) -> str:
        """Return the name of a case's door."""
        return random.Random(f"{self._seed}/{number}").choice(self._turns).name


def _read_on(cases: Cases, first: int, last: int, at: mmap.mmap) -> None:
    """Read cases and print findings, each a line of JSON; run by the child."""
    os.environ |= {"STRATO_HOME": str(cases.folder) + ".home", "HOME": str(cases.folder) + ".home"}
    cases.warm_up()
    status = Path("/proc/self/statm").read_text().split()
    most = int(status[0]) * resource.getpagesize() + LIMIT_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    counts: Counter[str] = Counter()
    print(json.dumps({"ready": True}), flush=True)
    for number in range(first, last):
        at[:8] = struct.pack("q", number)
        signal.setitimer(signal.ITIMER_VIRTUAL, MOST_SECONDS)
        begun = time.process_time()
        problem = ""
        try:
            counts[cases.run(number)] += 1
        except Exception as error:  # whatever it is, it is what this campaign looks for
            counts[cases.door_of(number)] += 1
            where = traceback.extract_tb(error.__traceback__)[-1]
            problem = f"{type(error).__name__}: {str(error)[:300]} ({Path(where.filename).name}:{where.lineno})"
        spent = time.process_time() - begun
        if not problem and spent > LIMIT_SECONDS:
            problem = f"took {spent:.1f} s of CPU"
        if problem:
            print(json.dumps({"case": number, "problem": problem}), flush=True)
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    print(json.dumps({"counts": counts}), flush=True)


def attack(count: int, seed: int, *, only: str = "", progress: bool = False) -> tuple[Counter[str], list[str]]:
    """Read damaged files; return counts by door, and findings."""
    counts: Counter[str] = Counter()
    findings: list[str] = []
    cases = Cases(seed, only)
    with tempfile.TemporaryFile() as place:
        place.truncate(mmap.PAGESIZE)
        at = mmap.mmap(place.fileno(), mmap.PAGESIZE)
        first = 0
        while first < count:
            begun, last = first, min(count, first + 20_000)
            at[:8] = struct.pack("q", first)
            with subprocess.Popen(
                [sys.executable, "-m", "tests.attack.files", "--child", f"{first},{last},{place.fileno()}",
                 "--seed", str(seed), "--only", only],
                stdout=subprocess.PIPE, pass_fds=[place.fileno()], env={**os.environ, "MALLOC_ARENA_MAX": "2"},
            ) as child:  # fmt: skip
                assert child.stdout is not None
                ready = done = False
                for line in child.stdout:
                    found: dict[str, Any] = json.loads(line)
                    if "ready" in found:
                        ready = True
                    elif "counts" in found:
                        counts.update(found["counts"])
                        done = True
                    else:
                        findings.append(f"case {found['case']} ({cases.door_of(found['case'])}): {found['problem']}")
                        if progress:
                            print(findings[-1], flush=True)
            code = child.returncode
            if not ready:
                raise RuntimeError("a reader does not read the samples as they are; see above")
            first = last
            if not done:
                (died,) = struct.unpack("q", at[:8])
                findings.append(f"case {died} ({cases.door_of(died)}): the reader ended with {code}")
                if progress:
                    print(findings[-1], flush=True)
                counts["read by readers that died"] += died + 1 - begun
                first = died + 1
            if progress:
                print(f"{first}/{count} cases, {len(findings)} findings", flush=True)
            if len(findings) > 300:
                break
    shutil.rmtree(cases.folder, ignore_errors=True)
    return counts, findings


def main() -> int:
    """Return 1 when there was a finding."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="Part of the names of doors.")
    parser.add_argument("--case", type=int, default=None, help="Read this one alone, and show its files.")
    parser.add_argument("--child", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        first, last, place = map(int, options.child.split(","))
        cases = Cases(options.seed, options.only)
        try:
            _read_on(cases, first, last, mmap.mmap(place, mmap.PAGESIZE))
        finally:
            shutil.rmtree(cases.folder, ignore_errors=True)
        return 0
    if options.case is not None:
        cases = Cases(options.seed, options.only)
        print(cases.door_of(options.case), cases.folder)
        begun = time.process_time()
        cases.run(options.case)
        print(f"nothing wrong, {time.process_time() - begun:.2f} s of CPU")
        return 0
    counts, findings = attack(options.count, options.seed, only=options.only, progress=True)
    for name, number in sorted(counts.items()):
        print(f"{name:<26}{number:>10}")
    print(f"{sum(counts.values())} cases, {len(findings)} findings")
    return int(bool(findings))


if __name__ == "__main__":
    sys.exit(main())
