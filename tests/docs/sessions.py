"""What the pages tell people to type, typed: python3 tests/docs/sessions.py --help.

A page's fenced blocks of the language ``console`` are one session: a shell in which each line after ``$ `` is typed as
it stands. Every command must succeed, and the lines shown below it must be in what it prints, in their order; ``…``
stands for anything. The line after a block may say that the tests do not run it, and why::

    *Not run by the tests: needs a cluster with Volcano.*

A block ``console world=cluster`` is typed with a kubeconfig of a real Kubernetes in the reader's home; for one of
``world=registry`` there are docker and a registry as well. A block ``python file=cheap.py`` is a file that the reader
saves first, in a folder of his own.

Needs nothing but Python's standard library, so that it runs on a machine with nothing else.
"""

from __future__ import annotations

import argparse
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
FENCE = re.compile(
    r"^```console(?P<world> world=\w+)?\n(?P<text>.*?)^```$(?P<after>\n*^\*.*?\*$)?", re.DOTALL | re.MULTILINE
)
SAVED = re.compile(r"^```\w+ file=(\S+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
NOT_RUN = re.compile(r"\*Not run by the tests: (.+?)\.?\*", re.DOTALL)
SERVICE = re.compile(r"strato (run \w+|flow serve|up .*--foreground|.* --foreground up)\b")
"""Commands that run until they are told to stop: they are at the end of the session."""
ROOT_ONLY = frozenset(
    ("examples/mpi/README.md", "examples/mpijob/README.md", "examples/distcc/README.md", "docs/training.md")
)
"""Pages that say they need root: their pods listen on one port, each in a network of its own, or ask for services."""
COMMAND_SECONDS = 600.0
SERVICE_SECONDS = 5.0
FILES = {
    "manifests/all.yaml": """\
apiVersion: v1
kind: Node
metadata: {name: node-1}
status: {allocatable: {cpu: "4", memory: 8Gi, pods: "10"}}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: one, namespace: default}
spec: {minMember: 1, queue: default}
""",
    "nodes.yaml": """\
apiVersion: v1
kind: Node
metadata: {name: node-1}
status: {allocatable: {cpu: "4", memory: 8Gi, pods: "10"}}
""",
    "jobs/job.yaml": """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: job, namespace: default}
spec:
  minAvailable: 1
  tasks:
  - {name: main, replicas: 1, template: {spec: {containers: [{name: main, image: busybox}], restartPolicy: Never}}}
""",
    "new.conf": 'actions: "enqueue, allocate"\ntiers:\n- plugins: [{name: gang}]\n',
    "volcano-scheduler.conf": 'actions: "enqueue, allocate, backfill"\ntiers:\n- plugins: [{name: gang}]\n',
    "values.yaml": "custom: {scheduler_replicas: 2}\n",
    "trace.csv": "submit,run_time,replicas,cpu,memory\n0,60,4,1,1Gi\n10,30,2,2,1Gi\n",
    "scheduler.yaml": 'actions: "enqueue, allocate, backfill"\ntiers:\n- plugins: [{name: gang}]\n',
}
"""Files of the reader's own that pages speak of."""


@dataclass(frozen=True, slots=True)
class Step:
    """One command, and what the page shows below it."""

    line: int
    command: str
    shows: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Block:
    """One block of a page's session."""

    page: str
    line: int
    world: str
    """Empty: this machine."""
    not_run: str
    """Why, or empty."""
    steps: tuple[Step, ...]


def pages(root: Path = ROOT) -> list[str]:
    """Return the pages, README first."""
    found = [*root.glob("docs/**/*.md"), *root.glob("examples/**/README.md"), root / "deploy" / "README.md"]
    return ["README.md", "benchmarks/README.md", *sorted(path.relative_to(root).as_posix() for path in found)]


def blocks(page: str, root: Path = ROOT) -> list[Block]:
    """Read the session of a page."""
    text = (root / page).read_text()
    found = []
    for fence in FENCE.finditer(text):
        reason = NOT_RUN.search(" ".join((fence["after"] or "").split()))
        line = text.count("\n", 0, fence.start()) + 1
        world = (fence["world"] or "").partition("=")[2]
        found.append(Block(page, line, world, reason[1] if reason else "", tuple(_steps(fence["text"], line + 1))))
    return found


def _steps(text: str, first_line: int) -> Iterator[Step]:
    command, line, shows = "", 0, list[str]()
    for number, typed in enumerate(text.splitlines(), first_line):
        if typed.startswith("$ "):
            if command:
                yield Step(line, command, tuple(shows))
            command, line, shows = typed[2:], number, []
        elif command.endswith("\\"):
            command += f"\n{typed}"
        elif typed.strip():
            shows.append(typed)
    if command:
        yield Step(line, command, tuple(shows))


def missing(shows: Sequence[str], printed: str) -> str:
    """Return the first shown line that is not in ``printed`` after those before it; empty when all are."""
    lines = iter([_plain(line) for line in printed.splitlines()])
    for shown in shows:
        words = _plain(shown)
        pattern = re.compile(".*".join(re.escape(part) for part in words.split("…")))
        if words != "…" and not any(pattern.fullmatch(line) for line in lines):
            return shown
    return ""


def _plain(text: str) -> str:
    return " ".join(text.split())


@dataclass(frozen=True, slots=True)
class Reader:
    """Who types: where the programs are, the home, and the user, if another than ours."""

    root: Path
    """A copy of the repository: pages of examples are typed in their folder, others at its top."""
    programs: Path
    home: Path
    user: int | None = None

    def environment(self) -> dict[str, str]:
        """Return a login's variables, and those that say how to reach package registries."""
        kept = {
            name: value for name, value in os.environ.items() if name.startswith("PIP_") or name.endswith("_CERT_FILE")
        }
        path = f"{self.programs}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        return {**kept, "HOME": str(self.home), "PATH": path, "LANG": "C.UTF-8"}


class Failed(Exception):
    """A command did not do what its page says."""


class Shell:
    """A shell that is typed into."""

    def __init__(self, reader: Reader, folder: Path) -> None:
        self._output = reader.home / ".session-output"
        self._shell = subprocess.Popen(
            ["bash", "--norc", "--noprofile"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=folder,
            env=reader.environment(),
            user=reader.user,
            group=reader.user,
            extra_groups=[] if reader.user is not None else None,
            start_new_session=True,
        )
        self._answers = b""

    def type(self, command: str, seconds: float = COMMAND_SECONDS) -> tuple[int, str]:
        """Return the status and what was printed."""
        self._write(f"{{ {command}\n}} >{self._output} 2>&1 </dev/null; echo $?\n")
        status = self._answer(seconds)
        printed = self._output.read_text(errors="replace")
        if status is None:
            raise Failed(f"`{command}` has not ended after {seconds:g} s\n{printed}")
        return status, printed

    def serve(self, command: str) -> tuple[int, str]:
        """Start a command that runs until it is told to stop; press Ctrl-C a little later."""
        interrupt = f"timeout --preserve-status -s INT {SERVICE_SECONDS}"
        return self.type(f"{interrupt} {command}")

    def _write(self, text: str) -> None:
        assert self._shell.stdin is not None
        self._shell.stdin.write(text.encode())
        self._shell.stdin.flush()

    def _answer(self, seconds: float) -> int | None:
        assert self._shell.stdout is not None
        if not select.select([self._shell.stdout], [], [], seconds)[0]:
            return None
        return int(self._shell.stdout.readline() or b"-1")

    def close(self) -> None:
        """End the shell and what it still runs."""
        os.killpg(self._shell.pid, signal.SIGKILL)
        self._shell.communicate()


def run(session: Sequence[Block], reader: Reader) -> int:
    """Type the blocks of one page that belong to one world, and return how many commands that were.

    Raises:
        Failed: A command did not do what its page says.
    """
    page = session[0].page
    folder = reader.root / (Path(page).parent if page.startswith("examples/") else ".")
    saved = dict(SAVED.findall((reader.root / page).read_text()))
    if saved:
        folder = reader.root.parent / "own"
        prepare(folder, reader.user, {**FILES, **saved})
    shell = Shell(reader, folder)
    done = 0
    try:
        for step in (step for block in session if not block.not_run for step in block.steps):
            status, printed = shell.serve(step.command) if SERVICE.match(step.command) else shell.type(step.command)
            if status not in (0, -signal.SIGINT, 128 + signal.SIGINT):
                raise Failed(f"{page}:{step.line}: `{step.command}` ended with status {status}\n{printed}")
            lost = missing(step.shows, printed)
            if lost:
                raise Failed(f"{page}:{step.line}: `{step.command}` does not show\n{lost}\nbut\n{printed}")
            done += 1
    finally:
        shell.type("strato down --purge --yes || strato down --purge")
        shell.close()
    return done


def prepare(root: Path, user: int | None = None, files: Mapping[str, str] = FILES) -> None:
    """Put the reader's own files into a folder, and give all of it to the user."""
    for name, text in files.items():
        (root / name).parent.mkdir(exist_ok=True, parents=True)
        (root / name).write_text(text)
    if user is not None:
        subprocess.run(["chown", "-R", f"{user}:{user}", str(root)], check=True)


def main() -> int:
    """Type the pages, and list what was not typed."""
    parser = argparse.ArgumentParser(description="Type what the pages tell people to type.")
    parser.add_argument("pages", nargs="*", help="such as docs/first-steps.md; all without")
    parser.add_argument("--programs", type=Path, default=Path(sys.prefix) / "bin", help="folder of the strato command")
    args = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory(prefix="strato-reader-") as directory:
        for page in args.pages or pages():
            session = [block for block in blocks(page) if not block.world]
            if not session:
                continue
            if page in ROOT_ONLY and os.geteuid() != 0:
                print(f"not run {page}: it needs root", flush=True)
                continue
            home = Path(directory) / page.replace("/", "-")
            home.mkdir()
            copy = shutil.copytree(ROOT, home / "strato", ignore=shutil.ignore_patterns(".*", "build"))
            prepare(copy)
            try:
                print(f"ok      {page}: {run(session, Reader(copy, args.programs, home))} commands", flush=True)
            except Failed as problem:
                failed += 1
                print(f"FAILED  {problem}", flush=True)
    for block in (block for page in args.pages or pages() for block in blocks(page)):
        reason = block.not_run or ("typed on a cluster only" if block.world else "")
        if reason:
            print(f"not run {block.page}:{block.line}: {len(block.steps)} commands: {reason}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
