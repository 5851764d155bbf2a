"""Paths that lead out: random trees with links, archives and payloads, while a second process swaps what is looked at.

``python -m tests.attack.paths --count N --seed S``. Beside each tree lies the machine: files and directories that
nothing may read, link, change or remove. Names, links and paths of the tree lead there in every way that is known, and
a racing process exchanges directories with links to the machine while the node's own code resolves paths, makes
directories and mount points, writes payload volumes, removes trees and unpacks archives. What counts as a finding: a
descriptor of anything that is not below the tree, any change of the machine, a regular file with the machine's secret
in the tree, an error that is no expected one, and, without a race, a difference between the kernel's resolution and the
one in steps.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import gzip
import io
import os
import random
import shutil
import signal
import stat
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from strato.node import beneath
from strato.node.beneath import Scope
from strato.node.images.layers import unpack
from strato.node.images.rootwriter import BadImage, Budget
from strato.node.removal import remove_tree
from strato.node.sandbox import linux
from strato.node.sandbox.atomicwriter import File, write_payload
from strato.node.sandbox.environment import ConfigProblem

SECRET = b"the machine's secret"
NAMES = ("a", "b", "c", "d", "e")
PER_TREE = 400
"""Resolutions in one tree."""
_EXCHANGE = 2

_libc = ctypes.CDLL(None, use_errno=True)


class Arena:
    """A tree that pods write to, and the machine beside it."""

    def __init__(self, directory: Path, rng: random.Random) -> None:
        self.rng = rng
        self.tree, self.machine = directory / "tree", directory / "machine"
        self.machine.mkdir()
        (self.machine / "etc").mkdir()
        for name in ("secret", "etc/secret", *NAMES):
            (self.machine / name).write_bytes(SECRET)
        self._before = self._state()
        self.tree.mkdir()
        self.directories = [""]
        self.fill()

    def _state(self) -> dict[str, tuple[int, ...]]:
        found = {}
        for path in (self.machine, *sorted(self.machine.rglob("*"))):
            at = path.lstat()
            found[str(path)] = (at.st_mode, at.st_ino, at.st_nlink, at.st_size, at.st_mtime_ns, at.st_uid)
        return found

    def machine_is_untouched(self) -> bool:
        return self._state() == self._before

    def fill(self) -> None:
        """Make directories, files and links, many of which lead out; by descriptors, for a race may be on."""
        rng = self.rng
        held = {"": os.open(self.tree, os.O_PATH)}
        with contextlib.ExitStack() as opened:
            opened.callback(os.close, held[""])
            for _ in range(rng.randrange(3, 12)):
                above, name = rng.choice(list(held)), rng.choice(NAMES)
                with contextlib.suppress(OSError):
                    os.mkdir(name, dir_fd=held[above])
                    made = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_DIRECTORY, dir_fd=held[above])
                    opened.callback(os.close, made)
                    held[os.path.join(above, name)] = made
            for _ in range(rng.randrange(3, 14)):
                directory, name = rng.choice(list(held.values())), rng.choice(NAMES)
                with contextlib.suppress(OSError):
                    if rng.random() < 0.3:
                        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW
                        os.close(os.open(name, flags, dir_fd=directory))
                    else:
                        os.symlink(self.target(), name, dir_fd=directory)
        self.directories = list(held)

    def target(self) -> str:
        """Return where a link may lead."""
        rng = self.rng
        ups = "../" * rng.randrange(0, 9)
        return rng.choice(
            (
                str(self.machine),
                f"{self.machine}/secret",
                f"{ups}machine/etc",
                f"{ups}{'/'.join(rng.choices(NAMES, k=rng.randrange(1, 4)))}",
                f"/{'/'.join(rng.choices(NAMES, k=2))}",
                f"..{self.machine}" if rng.random() < 0.5 else "..",
                f"/proc/self/fd/{rng.randrange(0, 30)}",
                "/proc/self/root",
                ".",
                rng.choice(NAMES),
            )
        )

    def path(self) -> str:
        """Return a path that a pod may ask for."""
        rng = self.rng
        parts = rng.choices(
            (*NAMES, "..", ".", "", "machine", "secret"), (6, 6, 6, 6, 6, 4, 1, 1, 1, 1), k=rng.randrange(1, 8)
        )
        text = "/".join(parts)
        if rng.random() < 0.2:
            ups, last = "../" * rng.randrange(1, 6), rng.choice(("", "/new", "/etc", "/secret"))
            outs = (f"{self.machine}{last}", f"{ups}machine{last}", f"{'../' * 9}{self.machine}{last}")
            return rng.choice((*outs, f"/{text}", f"{text}/", f"/proc/self/fd/{rng.randrange(20)}"))
        return text

    @contextlib.contextmanager
    def race(self) -> Iterator[None]:
        """Let a second process exchange directories with links to the machine."""
        pid = os.fork()
        if pid == 0:
            try:
                linux.die_with_parent()
                self._swap(random.Random(self.rng.random()))
            finally:
                os._exit(0)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)

    def _swap(self, rng: random.Random) -> None:
        above = self.tree.parent / "spare"
        above.mkdir(exist_ok=True)
        for number, out in enumerate((str(self.machine), "../machine", "../../machine/etc", f"{self.machine}/secret")):
            (above / str(number)).symlink_to(out)
        (above / "4" / "deep").mkdir(parents=True)
        (above / "4" / "deep" / "file").touch()
        # By descriptors of before: this process must not be led out itself.
        spare = os.open(above, os.O_PATH)
        held = [os.open(self.tree / inner, os.O_PATH | os.O_NOFOLLOW) for inner in self.directories]
        while True:
            _exchange(spare, str(rng.randrange(5)), rng.choice(held), rng.choice(NAMES))


def _exchange(spare: int, one: str, directory: int, other: str) -> None:
    if _libc.renameat2(spare, one.encode(), directory, other.encode(), _EXCHANGE) < 0:
        with contextlib.suppress(OSError):
            os.rename(one, other, src_dir_fd=spare, dst_dir_fd=directory)
            os.rename(other, one, src_dir_fd=directory, dst_dir_fd=spare)


class Campaign:
    """Counts what was tried, and what was found."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.counts: Counter[str] = Counter()
        self.findings: list[str] = []

    def find(self, what: str) -> None:
        self.findings.append(what)

    @contextlib.contextmanager
    def arena(self) -> Iterator[Arena]:
        directory = Path(tempfile.mkdtemp(prefix="strato-paths-"))
        try:
            found = Arena(directory, self.rng)
            yield found
            if not found.machine_is_untouched():
                self.find(f"the machine was changed below {directory}")
            for path in _regular_files(found.tree):
                if SECRET in Path(path).read_bytes():
                    self.find(f"{path} holds the machine's secret")
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    # What is tried

    def resolve(self, arena: Arena, times: int, *, raced: bool) -> None:
        """Resolve paths in every way the node does."""
        with beneath.opened(str(arena.tree)) as root:
            top = os.readlink(f"/proc/self/fd/{root}")
            for _ in range(times):
                path, scope = arena.path(), self.rng.choice((Scope.BENEATH, Scope.IN_ROOT))
                links = self.rng.random() < 0.9
                ways = {}
                for has_call in (True, False):
                    beneath._works = has_call
                    ways[has_call] = self._opened(root, top, path, scope, links=links)
                    self.counts["resolutions" + (" raced" if raced else "")] += 1
                if not raced and ways[True] != ways[False]:
                    self.find(f"{path!r} {scope}: openat2 {ways[True]}, in steps {ways[False]}")
                if self.rng.random() < 0.2:
                    self._make(root, top, path, scope)

    def _opened(self, root: int, top: str, path: str, scope: Scope, *, links: bool) -> object:
        try:
            found = beneath.open_at(root, path, os.O_PATH, scope=scope, links=links)
        except OSError as err:
            return err.errno
        return self._is_inside(found, top, path)

    def _is_inside(self, found: int, top: str, path: str) -> object:
        try:
            where = os.readlink(f"/proc/self/fd/{found}")
            # What was swapped into the racing process's spare directory is the tree's own.
            mine = (top, os.path.join(os.path.dirname(top), "spare"))
            if not (where == top or where.startswith(tuple(f"{place}/" for place in mine))):
                self.find(f"{path!r} led to {where}")
            return os.fstat(found).st_ino
        finally:
            os.close(found)

    def _make(self, root: int, top: str, path: str, scope: Scope) -> None:
        beneath._works = self.rng.random() < 0.5
        try:
            if scope is Scope.IN_ROOT:
                found = beneath.make_mount_point(root, path, is_directory=self.rng.random() < 0.5)
            else:
                found = beneath.make_directories(root, path)
        except OSError:
            self.counts["makings refused"] += 1
            return
        self.counts["makings"] += 1
        self._is_inside(found, top, path)

    def write_payloads(self, arena: Arena, times: int) -> None:
        """Write payload volumes into the tree, whose paths lead anywhere."""
        for _ in range(times):
            files = {
                arena.path(): File(b"payload", self.rng.randrange(0o10000)) for _ in range(self.rng.randrange(1, 4))
            }
            try:
                write_payload(str(arena.tree / "volume"), files)
                self.counts["payloads"] += 1
            except (ConfigProblem, OSError):
                self.counts["payloads refused"] += 1
            if self.rng.random() < 0.3:
                self._plant(arena, arena.tree / "volume")

    def _plant(self, arena: Arena, volume: Path) -> None:
        """Put links into a payload volume, as a plain process could."""
        places = [volume, *(path for path in volume.rglob("*") if path.is_dir() and not path.is_symlink())]
        path = self.rng.choice(places) / self.rng.choice((*NAMES, "..data", "..data_new"))
        with contextlib.suppress(OSError):
            path.unlink()
        with contextlib.suppress(OSError):
            path.symlink_to(arena.target())

    def remove(self, arena: Arena, times: int) -> None:
        """Remove what is in the tree, again and again."""
        for _ in range(times):
            beneath._works = self.rng.random() < 0.7
            for name in os.listdir(arena.tree):
                remove_tree(str(arena.tree / name))
                self.counts["removals"] += 1
            arena.fill()

    def unpack(self, arena: Arena, times: int) -> None:
        """Unpack archives with random entries, some of them damaged."""
        for _ in range(times):
            data = self._archive(arena)
            if self.rng.random() < 0.3:
                damaged = bytearray(data)
                for _ in range(self.rng.randrange(1, 8)):
                    damaged[self.rng.randrange(len(damaged))] = self.rng.randrange(256)
                data = bytes(damaged)
            if self.rng.random() < 0.2:
                data = gzip.compress(data, 1)
            try:
                unpack(io.BytesIO(data), str(arena.tree), Budget(1 << 20, 1000), layer=self.rng.random() < 0.5)
                self.counts["archives"] += 1
            except (BadImage, OSError):
                self.counts["archives refused"] += 1
            except Exception as err:  # anything else is what this campaign looks for
                self.find(f"an archive raised {type(err).__name__}: {err}: {data[:600]!r}")

    def _archive(self, arena: Arena) -> bytes:
        rng, buffer = self.rng, io.BytesIO()
        formats = (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT)
        with tarfile.open(fileobj=buffer, mode="w", format=rng.choice(formats)) as archive:
            for _ in range(rng.randrange(1, 5)):
                member = tarfile.TarInfo(arena.path() or ".")
                if rng.random() < 0.2:
                    above, name = os.path.split(member.name)
                    member.name = os.path.join(above, rng.choice((f".wh.{name}", ".wh..wh..opq", ".wh...", ".wh..")))
                kinds = (tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE)
                member.type = rng.choice(kinds)
                member.mode = rng.randrange(0o10000)
                content = b""
                if member.type == tarfile.REGTYPE:
                    content = rng.randbytes(rng.randrange(0, 2000))
                    member.size = len(content)
                elif member.type in (tarfile.SYMTYPE, tarfile.LNKTYPE):
                    member.linkname = rng.choice((arena.target(), arena.path(), f"{arena.machine}/secret"))
                archive.addfile(member, io.BytesIO(content))
        return buffer.getvalue()


def _regular_files(tree: Path) -> Iterator[str]:
    for directory, _, files in os.walk(tree):
        for name in files:
            path = os.path.join(directory, name)
            if stat.S_ISREG(os.lstat(path).st_mode):
                yield path


def attack(count: int, seed: int, *, progress: bool = False) -> tuple[Counter[str], list[str]]:
    """Resolve at least ``count`` paths, and write, remove and unpack beside that; return counts and findings."""
    campaign = Campaign(seed)
    rounds = 0
    original = beneath._openat2_works()
    try:
        while campaign.counts["resolutions"] + campaign.counts["resolutions raced"] < count:
            raced = rounds % 2 == 0
            for work in _works(campaign, raced=raced):
                with campaign.arena() as arena, arena.race() if raced else contextlib.nullcontext():
                    work(arena)
            rounds += 1
            if progress and rounds % 10 == 0:
                done = campaign.counts["resolutions"] + campaign.counts["resolutions raced"]
                print(f"\r{done}/{count} resolutions, {len(campaign.findings)} findings", end="", flush=True)
            if len(campaign.findings) > 100:
                break
    finally:
        beneath._works = original
    if progress:
        print()
    return campaign.counts, campaign.findings


def _works(campaign: Campaign, *, raced: bool) -> list[Callable[[Arena], None]]:
    return [
        lambda arena: campaign.resolve(arena, PER_TREE, raced=raced),
        lambda arena: campaign.write_payloads(arena, 20),
        lambda arena: campaign.unpack(arena, 30),
        lambda arena: campaign.remove(arena, 20),
    ]


def main() -> int:
    """Return 1 when there was a finding."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    counts, findings = attack(options.count, options.seed, progress=True)
    for name, number in sorted(counts.items()):
        print(f"{name:<20}{number:>10}")
    for finding in findings[:50]:
        print(finding)
    print(f"{len(findings)} findings")
    return int(bool(findings))


if __name__ == "__main__":
    sys.exit(main())
