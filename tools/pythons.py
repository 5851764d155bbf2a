"""Run the tests on every Python that the project supports and this machine has: make test-pythons.

The versions are those of the classifiers; interpreters are looked for on PATH and where pyenv and uv keep theirs. Each
gets an environment of its own in ``.pythons/``. All run at once; what a run printed follows when it ends. Tests that
search at random or compile for long, and those of rooms where versions do not differ, are left to ``make test``,
which runs all on one interpreter; ``--whole`` runs them here too. The last lines say which versions ran.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[1]
PLACES = ROOT / ".pythons"
MANAGED = (("~/.pyenv/versions", "{version}.*/bin"), ("~/.local/share/uv/python", "cpython-{version}.*/bin"))
_SAY = "import sys, venv, ensurepip; print(f'{sys.version_info.major}.{sys.version_info.minor}')"
SLICE = (
    *("tests/api", "tests/http", "tests/client", "tests/cli", "tests/node"),
    *("tests/scheduler/placement", "tests/scheduler/plugins"),
    *("tests/test_lru.py", "tests/test_messages.py"),
)
"""Where Python's own versions differ: syntax trees, asyncio, TLS, processes, numba, messages of the library."""
MARKS = "not slow and not e2e and not kube and not attack and not hypothesis"


def supported() -> list[str]:
    """Return the versions that the classifiers name, oldest first."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return [found[1] for line in project["classifiers"] if (found := re.search(r":: (3\.\d+)$", line))]


def interpreter(version: str) -> str:
    """Return a program that is this version, empty when there is none."""
    name = f"python{version}"
    for candidate in _candidates(name, version):
        done = subprocess.run(
            [candidate, "-c", _SAY],
            capture_output=True,
            text=True,
            check=False,
        )
        if (
            done.returncode == 0 and done.stdout.strip() == version
        ):  # pyenv's names exist whether the version does or not
            return candidate
    return ""


def _candidates(name: str, version: str) -> Iterator[str]:
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        found = shutil.which(name, path=folder)
        if found:
            yield found
    for root, below in MANAGED:
        folders = sorted(Path(root).expanduser().glob(below.format(version=version)))
        yield from (str(folder / name) for folder in folders if (folder / name).exists())


def prepare(version: str, program: str) -> Path:
    """Return the Python of an environment with the project and its tests' tools."""
    place = PLACES / version
    python = place / "bin" / "python"
    if not python.exists():
        subprocess.run([program, "-m", "venv", str(place)], check=True)
    pip = [str(python), "-m", "pip", "install", "--quiet"]
    subprocess.run([*pip, "--upgrade", "pip>=25.1"], check=True)
    subprocess.run([*pip, "--editable", ".", "--group", "dev"], cwd=ROOT, check=True)
    return python


def run(python: Path, tests: list[str], seconds: float) -> tuple[str, str]:
    """Run tests; return what came of it, and what they printed."""
    began = time.monotonic()
    command = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
    # Not the folder that pytest's other runs on this machine clear up, but one of /tmp, which pods have of their own.
    with tempfile.TemporaryDirectory(prefix="strato-pythons-", ignore_cleanup_errors=True) as scratch:
        command += ["--basetemp", str(Path(scratch) / "pytest")]
        with tempfile.TemporaryFile("w+") as printed:
            try:
                limit = seconds if seconds < float("inf") else None
                code = subprocess.run(command, cwd=ROOT, check=False, timeout=limit, stdout=printed).returncode
            except subprocess.TimeoutExpired:
                code = None
            printed.seek(0)
            text = printed.read()
    if code is None:
        return f"stopped after {seconds:.0f} s: no time is left", text
    return ("passed" if code == 0 else "FAILED") + f" in {time.monotonic() - began:.0f} s", text


def main(arguments: list[str]) -> int:
    """Run the tests on each version; return 1 when one failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--whole", action="store_true", help="run all default tests on each version")
    parser.add_argument("--only", action="append", choices=supported(), help="only this version; may be repeated")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="what all of it may take at most")
    parser.add_argument("tests", nargs="*", help="tests to run instead")
    options = parser.parse_args(arguments)
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    deadline = time.monotonic() + options.seconds
    tests = options.tests or ([] if options.whole else [*SLICE, "-m", MARKS])
    outcome: dict[str, str] = {}
    runs: dict[str, Future[tuple[str, str]]] = {}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for version in options.only or supported():
            outcome[version] = ""
            if version == here and not options.only:
                outcome[version] = "run by make test"
            elif not (program := interpreter(version)):
                outcome[version] = "skipped: not installed"
            else:
                print(f"Python {version} ({program}): tests begin", flush=True)
                runs[version] = pool.submit(run, prepare(version, program), tests, deadline - time.monotonic())
    for version, done in runs.items():
        outcome[version], printed = done.result()
        print(f"\n=== Python {version}\n{printed}", flush=True)
    print("\nPython   outcome")
    print("\n".join(f"{version:<8} {text}" for version, text in outcome.items()))
    return int(any(text.startswith("FAILED") for text in outcome.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
