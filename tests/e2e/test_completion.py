"""Real shells complete the cluster's objects: somebody types the beginning and presses Tab."""

from __future__ import annotations

import os
import pty
import select
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.test_jobs import vcjob
from tests.e2e.worlds import World

pytestmark = pytest.mark.e2e
SHELLS = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], "source <(strato completion bash)"),
    "zsh": (["zsh", "-f", "-i"], "autoload -U compinit; compinit -u -D; source <(strato completion zsh)"),
    "fish": (["fish", "--no-config", "-i"], "strato completion fish | source"),
}


class Terminal:
    """A shell at a terminal."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._screen = ""

    def type(self, text: str) -> None:
        os.write(self._descriptor, text.encode())

    def see(self, text: str, seconds: float = 90.0) -> None:
        """Wait until the screen shows something; the deadline only bounds a failing test."""
        deadline = time.monotonic() + seconds
        while text not in self._screen:
            assert time.monotonic() < deadline, f"{text!r} is not on the screen: {self._screen[-2000:]!r}"
            if select.select([self._descriptor], [], [], 0.2)[0]:
                self._screen += os.read(self._descriptor, 65536).decode(errors="replace")
        self._screen = self._screen.partition(text)[2]


@contextmanager
def terminal(shell: str, kubeconfig: Path, folder: Path) -> Iterator[Terminal]:
    """Open a shell that has `strato` on its path and nothing of the machine's own configuration."""
    command, _ = SHELLS[shell]
    program = folder / "bin" / "strato"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -P -m strato "$@"\n')
    program.chmod(0o755)
    environment = {
        "PATH": f"{program.parent}:/usr/local/bin:/usr/bin:/bin",
        "HOME": str(folder),
        "TERM": "dumb",
        "PS1": "ready> ",
        "LANG": "C.UTF-8",
        "KUBECONFIG": str(kubeconfig),
    }
    pid, descriptor = pty.fork()
    if pid == 0:
        try:
            os.execvpe(command[0], command, environment)
        finally:
            os._exit(127)
    try:
        yield Terminal(descriptor)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(descriptor)


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_completes_jobs_queues_and_namespaces(shell: str, world: World, namespace: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed; on Debian: apt-get install {shell}")
    world.apply({**vcjob("train-large", replicas=1), "metadata": {"name": "train-large", "namespace": namespace}})
    with terminal(shell, world.kubeconfig, tmp_path) as typist:
        typist.type(f"{SHELLS[shell][1]}; echo the-script-is-$((1+1))-here\n".replace("$((1+1))", "read"))
        typist.see("the-script-is-read-here\r\n")
        typist.type(f"strato job view -n {namespace} -N trai\t")
        typist.see("train-large")
        typist.type("\x15")  # the line is discarded
        typist.type(f"strato job view -n {namespace[:-3]}\t")
        typist.see(namespace)
        typist.type("\x15")
        typist.type(f"strato explain -n {namespace} job/tr\t")
        typist.see("job/train-large")
        typist.type("\x15")
        typist.type("strato queue get -n defau\t")
        typist.see("default")
        typist.type("\x15")
        typist.type("strato compl\t")
        typist.see("completion")
