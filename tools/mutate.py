"""Put single faults into decision code and see that the tests find them.

    python tools/mutate.py [--count 400] [--seed 1] [--room NAME] [--jobs 2] [--only TEXT] [--again SURVIVORS]
                           [--tests PATH] [--remap]

Tests are collected once. Each mutant has a process forked off from there, whose functions get the faulty code, and
which runs the tests of its room that were seen to run the faulty lines, until one fails. Which tests run which lines is
measured with coverage.py, where Hypothesis draws few examples, and kept by test file under .cache/mutate; of a function
edited since, every test that ran it counts. Which mutants a seed draws changes only where code changes. Survivors are
written with their diff to .cache/mutate/survivors.json; what `tools/equivalent.yaml` judges to be no fault does not
count.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import gc
import hashlib
import json
import os
import pickle
import resource
import shutil
import signal
import sys
import tempfile
import time
import types
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import coverage
import pytest
import yaml
from linemap import Tests
from mutants import Mutant, mutants_of

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "strato"
CACHE = ROOT / ".cache" / "mutate"
ROOMS: dict[str, tuple[list[str], list[str]]] = {  # room: (its decision code, patterns of its tests)
    "actions": (
        ["scheduler/actions", "scheduler/binding", "scheduler/framework", "scheduler/statement.py"],
        ["tests/scheduler", "tests/cases"],
    ),
    "plugins": (["scheduler/plugins"], ["tests/scheduler", "tests/cases"]),
    "placement": (
        ["scheduler/ordering", "scheduler/placement", "scheduler/claims", "scheduler/topology"],
        ["tests/scheduler", "tests/cases"],
    ),
    "cache": (["scheduler/cache", "scheduler/model"], ["tests/scheduler", "tests/cases"]),
    "jobs": (
        ["controllers/job"],
        [
            "tests/controllers/test_job*.py",
            "tests/controllers/test_owned_creates.py",
            "tests/controllers/test_worlds.py",
        ],
    ),
    "node": (
        [
            "node/podstatus.py",
            "node/restarts.py",
            "node/hollow/runplan.py",
            "node/nodesync.py",
            "node/timers.py",
            "node/hollow/pods.py",
            "node/sandbox/gpupool.py",
            "node/sandbox/gpus.py",
            "node/sandbox/environment.py",
            "node/sandbox/security.py",
            "node/sandbox/volumes.py",
            "node/sandbox/pressure.py",
            "node/sandbox/probes.py",
            "node/sandbox/runtime.py",
            "node/sandbox/podworker.py",
        ],
        ["tests/node"],
    ),
    "admission": (["admission"], ["tests/admission"]),
    "rest": (["server/rest"], ["tests/server"]),
    "advice": (
        ["advice", "history", "controllers/vpa", "api/recommended.py"],
        [
            *("tests/advice", "tests/history", "tests/cases", "tests/controllers/test_vpa*.py"),
            *("tests/cli/test_advise.py", "tests/admission/test_recommendations.py"),
        ],
    ),
    "training": (
        ["controllers/training"],
        ["tests/controllers/test_train*.py", "tests/controllers/test_mpi.py", "tests/api/test_t*.py", "tests/cases"],
    ),
    "agent": (["agent"], ["tests/agent", "tests/cases"]),
    "overcommit": (
        ["controllers/overcommit", "api/amplification.py"],
        ["tests/controllers/test_overcommit.py", "tests/api/test_amplification.py", "tests/cases"],
    ),
    "api": (["api/validation", "api/defaults"], ["tests/api", "tests/server", "tests/admission"]),
}
DECISIONS = [f"{SOURCE}/{path}{'' if path.endswith('.py') else '/*'}" for paths, _ in ROOMS.values() for path in paths]
KEY = ("file", "function", "was", "now", "nth")
PASSING_BAR = 0.95
MEASURED_EXAMPLES = 10
HUNG_SECONDS, HUNG_FACTOR = 20.0, 8.0
"""A test that uses the processor for so much longer than it was seen to, and this many times as long, does not end."""
WAITING_SECONDS = 120.0
"""A test that takes so long, and what it may use of the processor twenty times, waits for what does not come."""


class Runner:
    """A pytest plugin: forks from the collected session instead of running it."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._failed = ""
        self._survivors: list[dict] = []
        self._functions: dict[str, list[types.FunctionType]] = defaultdict(list)
        self.status = 2

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Measure which tests run what, then try the mutants."""
        self._session = session
        self._sources = {str(file.relative_to(SOURCE)): file.read_bytes() for file in SOURCE.rglob("*.py")}
        self._items = {item.nodeid: item for item in session.items}
        warm = [item for item in session.items if "tests/scheduler/test_cycle.py" in item.nodeid][:1]
        for item in warm:  # loads the compiled kernels once
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
        for thing in gc.get_objects():
            if isinstance(thing, types.FunctionType) and thing.__code__.co_filename.startswith(str(SOURCE)):
                self._functions[thing.__code__.co_filename].append(thing)
        gc.freeze()
        tests = self._mapped()
        self.status = self._try_mutants(tests)
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note the first test that fails in this process."""
        if report.failed and not self._failed:
            self._failed = report.nodeid

    # which tests run what

    def _mapped(self) -> Tests:
        (CACHE / "sources").mkdir(parents=True, exist_ok=True)
        (CACHE / "maps").mkdir(exist_ok=True)
        files: dict[str, list[pytest.Item]] = defaultdict(list)
        for item in self._session.items:
            files[item.nodeid.split("::")[0]].append(item)
        known = {
            file: CACHE / "maps" / hashlib.sha256(file.encode() + (ROOT / file).read_bytes()).hexdigest()
            for file in files
        }
        missing = [file for file, path in known.items() if self._options.remap or not path.exists()]

        def measure(file: str) -> Callable[[Path], None]:
            return lambda place: self._measure(files[file], place, known[file])

        jobs = {file: (measure(file), 1800.0) for file in missing}
        for at, (file, seconds, _) in enumerate(_forked(jobs, self._options.jobs), 1):
            print(f"  which tests run what: {at}/{len(missing)} {file} ({seconds:.0f} s)", flush=True)
        tests = Tests(CACHE / "sources")
        for file, path in known.items():
            if path.exists():
                found = pickle.loads(path.read_bytes())
                tests.add(file, found)
                for name in found["tests"]:
                    if name not in found["seconds"]:
                        print(f"  left out, as it failed while it was measured: {name}", flush=True)
        return tests

    def _measure(self, items: list[pytest.Item], place: Path, result: Path) -> None:
        cover = coverage.Coverage(data_file=str(place / "coverage"), include=DECISIONS, config_file=False)
        cover.set_option("run:disable_warnings", ["module-not-measured", "no-data-collected", "module-not-imported"])
        cover.start()
        seconds: dict[str, float] = {}
        for item, following in zip(items, [*items[1:], None], strict=False):
            cover.switch_context(item.nodeid)
            few = _draw_examples(item, MEASURED_EXAMPLES)
            self._failed, before = "", time.process_time()
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if not self._failed:
                seconds[item.nodeid] = (time.process_time() - before) / few
        cover.stop()
        names = [item.nodeid for item in items]
        place_of = {name: at for at, name in enumerate(names)}
        data, lines, sources = cover.get_data(), {}, {}
        for file in data.measured_files():
            path = str(Path(file).relative_to(SOURCE))
            spans: dict[int, list[int]] = defaultdict(list)
            for line, contexts in data.contexts_by_lineno(file).items():
                spans[sum(1 << place_of[name] for name in contexts if name in place_of)].append(line)
            lines[path] = dict(spans)
            text = self._sources[path]
            sources[path] = hashlib.sha256(text).hexdigest()
            (CACHE / "sources" / sources[path]).write_bytes(text)
        result.write_bytes(pickle.dumps({"seconds": seconds, "tests": names, "lines": lines, "sources": sources}))

    # mutants

    def _try_mutants(self, tests: Tests) -> int:
        judged = {
            tuple(({"nth": 0} | one)[name] for name in KEY)
            for one in yaml.safe_load((ROOT / "tools" / "equivalent.yaml").read_text()) or []
        }
        drawn, sources = _drawn(self._options, self._sources), self._sources
        chosen = {str(at): (room, mutant) for at, (room, mutant) in enumerate(drawn) if mutant.key not in judged}
        equivalent = Counter(room for room, mutant in drawn if mutant.key in judged)
        jobs: dict[str, tuple[Callable[[Path], None], float]] = {}
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        ran = {at: tests.running(mutant, sources[mutant.path]) for at, (_, mutant) in chosen.items()}
        for at in chosen:
            jobs[at] = (lambda place, at=at: self._try(chosen[at][1], ran[at], tests.seconds, place), WAITING_SECONDS)
        for done, (at, seconds, result) in enumerate(_forked(jobs, self._options.jobs), 1):
            room, mutant = chosen[at]
            outcome, by = (result or "killed\nits end").split("\n", 1)
            counts[room][outcome] += 1
            print(
                f"  {done}/{len(jobs)} {outcome:9} {seconds:5.1f} s {mutant.path}:{mutant.lines[0]} {mutant.function}: "
                f"{mutant.was} -> {mutant.now}{'  by ' + by if by else ''}",
                flush=True,
            )
            if outcome == "survived":
                self._note(room, mutant, sources[mutant.path], len(ran[at]))
        _print_table(counts, equivalent)
        alive = sum(count["survived"] for count in counts.values())
        found = sum(count["killed"] + count["timed out"] for count in counts.values())
        return 0 if found >= PASSING_BAR * (found + alive) else 1

    def _note(self, room: str, mutant: Mutant, source: bytes, tried: int) -> None:
        before, after = (text.decode().splitlines(keepends=True) for text in (source, mutant.applied(source)))
        diff = "".join(difflib.unified_diff(before, after, mutant.path, mutant.path, n=2))
        self._survivors.append(
            {
                "room": room,
                **dict(zip(KEY, mutant.key, strict=True)),
                "tests": tried,
                "diff": diff,
            }
        )
        self._options.survivors.write_text(json.dumps(self._survivors, indent=1))

    def _try(self, mutant: Mutant, names: list[str], seen: dict[str, float], place: Path) -> None:
        """Run tests on the faulty code in this process."""
        try:
            changed = self._put_in(mutant, self._sources[mutant.path])
        except (ValueError, SyntaxError):  # other free variables, or no code any more
            changed = False
        if not changed:
            _tell(place, "invalid\n")
            return
        items = [self._items[name] for name in names if name in self._items]
        for item, following in zip(items, [*items[1:], None], strict=False):
            _draw_examples(item)
            limit = HUNG_SECONDS + HUNG_FACTOR * seen[item.nodeid]
            _allow(place, WAITING_SECONDS + 20 * limit)
            resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time() + limit), resource.RLIM_INFINITY))
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if self._failed:
                _tell(place, f"killed\n{self._failed}")
                return
        _tell(place, "survived\n" if items else "survived\nno test runs it")

    def _put_in(self, mutant: Mutant, source: bytes) -> bool:
        """Give every function made from the mutated text the code of the mutant; say whether there was one."""
        changed = False
        file = str(SOURCE / mutant.path)
        old = _codes(compile(source, file, "exec"))
        new = _codes(compile(mutant.applied(source), file, "exec"))
        inside = mutant.function + "."
        for function in self._functions[file]:
            code = function.__code__
            place = next((key for key, one in old.items() if one == code), None)
            if place and (code.co_qualname == mutant.function or code.co_qualname.startswith(inside)) and place in new:
                function.__code__, changed = new[place], True
        return changed


def _draw_examples(item: pytest.Item, at_most: int = sys.maxsize) -> float:
    """Have a test draw that many examples, and make none simpler; return the part of its examples that this is."""
    from hypothesis import Phase, settings  # pytest rewrites it, and wants it unread until then

    test = getattr(item, "obj", None)
    test = getattr(test, "__func__", test)
    old: settings | None = getattr(test, "_hypothesis_internal_use_settings", None)
    if old is None:
        return 1.0
    count, phases = min(old.max_examples, at_most), (Phase.explicit, Phase.generate)
    test._hypothesis_internal_use_settings = settings(  # noqa: SLF001  # there is no other way after the collection
        old, max_examples=count, phases=phases
    )
    return count / old.max_examples


def _codes(module: types.CodeType) -> dict[tuple[str, int], types.CodeType]:
    """Return the code objects of a file by name and place among those of that name."""
    found: dict[tuple[str, int], types.CodeType] = {}
    count: Counter[str] = Counter()
    waiting = [module]
    while waiting:
        code = waiting.pop()
        found[code.co_qualname, count[code.co_qualname]] = code
        count[code.co_qualname] += 1
        waiting += [const for const in reversed(code.co_consts) if isinstance(const, types.CodeType)]
    return found


def _drawn(options: argparse.Namespace, sources: dict[str, bytes]) -> list[tuple[str, Mutant]]:
    """Return the mutants that the seed draws: half of them the same number from each room, half by size."""
    rooms = {}
    for room, (paths, _) in ROOMS.items():
        files = [file for file in sorted(sources) if any(file == path or file.startswith(f"{path}/") for path in paths)]
        found = [one for file in files for one in mutants_of(file, sources[file])]
        rooms[room] = [one for one in found if options.only in f"{one.path} {one.function}"]
    if options.room:
        rooms = {room: rooms[room] for room in options.room}
    if options.again:
        keys = {tuple(one[name] for name in KEY) for one in json.loads(options.again.read_text())}
        return [(room, one) for room, found in rooms.items() for one in found if one.key in keys]
    size = sum(len(found) for found in rooms.values())
    drawn: list[tuple[str, Mutant]] = []
    for room, found in rooms.items():
        share = round(options.count / 2 / len(rooms) + options.count / 2 * len(found) / max(size, 1))
        drawn += [(room, one) for one in sorted(found, key=lambda one: one.rank(options.seed))[:share]]
    return drawn


def _forked(jobs: dict[str, tuple[Callable[[Path], None], float]], at_once: int) -> Iterator[tuple[str, float, str]]:
    """Do jobs in processes of their own; yield the name, seconds and result text of each as it ends.

    A job has its seconds, and more as often as it says so with `_allow`; it may limit what it uses of the processor.
    """
    waiting, running = list(jobs), {}
    while waiting or running:
        while waiting and len(running) < at_once:
            name = waiting.pop(0)
            work, limit = jobs[name]
            place = Path(tempfile.mkdtemp(prefix="mut"))
            (place / "result").touch()
            _allow(place, limit)
            pid = os.fork()
            if pid == 0:
                _be_child(work, place)
            running[pid] = (name, time.monotonic(), place)
        time.sleep(0.02)
        for pid, (name, began, place) in list(running.items()):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if not ended:
                if time.time() < (place / "result").stat().st_mtime:
                    continue
                os.killpg(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            late = not ended or (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)  # what the tests left behind
            del running[pid]
            result = (place / "result").read_text()
            yield name, time.monotonic() - began, result or ("timed out\n" if late else "")
            shutil.rmtree(place, ignore_errors=True)


def _allow(place: Path, seconds: float) -> None:
    """Give the job of a place so many seconds from now; its result file bears the time when they are over."""
    until = time.time() + seconds
    os.utime(place / "result", (until, until))  # in one step: whoever sees a time that is over ends the job


def _tell(place: Path, text: str) -> None:
    """Leave the result of the job of a place, at once as a whole: whoever is late may be ended at any time."""
    whole = place / "whole"
    whole.write_text(text)
    whole.rename(place / "result")


def _be_child(work: Callable[[Path], None], place: Path) -> None:
    """Work in a process group and a temporary directory of one's own, silently."""
    os.setpgid(0, 0)
    try:
        quiet = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(quiet, stream)
        os.environ["TMPDIR"] = tempfile.tempdir = str(place)
        work(place)
    finally:
        os._exit(0)


def _print_table(counts: dict[str, Counter[str]], equivalent: Counter[str]) -> None:
    columns = ["killed", "timed out", "survived", "invalid"]
    print(f"\n{'room':12}" + "".join(f"{name:>12}" for name in [*columns, "equivalent", "found"]))
    for room, count in [*counts.items(), ("all", sum(counts.values(), Counter()))]:
        found = count["killed"] + count["timed out"]
        told = found + count["survived"]
        same = equivalent[room] if room != "all" else sum(equivalent.values())
        print(
            f"{room:12}" + "".join(f"{count[name]:12}" for name in columns) + f"{same:12}{found / max(told, 1):12.0%}"
        )


def main() -> int:
    """Run pytest's collection with the runner in place of its loop."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=400, help="mutants to draw (default 400)")
    parser.add_argument("--seed", type=int, default=1, help="which ones (default 1)")
    parser.add_argument(
        "--room", action="append", choices=sorted(ROOMS), help="draw from this room only; may be repeated"
    )
    parser.add_argument("--only", default="", help="draw only where file and function contain this text")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="processes at a time (default: all processors)"
    )
    parser.add_argument(
        "--survivors", type=Path, default=CACHE / "survivors.json", help="where to write what was not found"
    )
    parser.add_argument("--again", type=Path, help="try what such a file lists instead of drawing")
    parser.add_argument("--tests", action="append", help="find them with these tests only; may be repeated")
    parser.add_argument("--remap", action="store_true", help="measure again which tests run what")
    options = parser.parse_args()
    os.chdir(ROOT)
    patterns = options.tests or {pattern for room in options.room or ROOMS for pattern in ROOMS[room][1]}
    folders = {str(path.relative_to(ROOT)) for pattern in patterns for path in ROOT.glob(pattern)}
    runner = Runner(options)
    pytest.main(
        ["-qq", "-s", "--no-header", "--no-summary", "-p", "no:cacheprovider", *sorted(folders)], plugins=[runner]
    )
    return runner.status


if __name__ == "__main__":
    sys.exit(main())
