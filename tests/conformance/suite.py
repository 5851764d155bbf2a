"""Kubernetes' own suite as a program: which specs it has, and one of them run against a cluster."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

UP = ("--strict-images", "--cpus", "8", "--sandbox-nodes", "2")
"""Options of 'strato up': never another root than the image's, room for the specs that run beside one another, and two
nodes, which some specs want."""
BUILD = Path(__file__).parent / "suite/build.sh"
GRACE_SECONDS = 20
"""What a spec that is out of time may take to clean up after itself."""
_SIG = re.compile(r"\[sig-([a-z-]+)\]")


@dataclass(frozen=True, slots=True)
class Spec:
    """One spec of the suite."""

    name: str

    @property
    def sig(self) -> str:
        """The special interest group it belongs to, for example ``node``."""
        match = _SIG.search(self.name)
        return match[1] if match else ""

    @property
    def is_serial(self) -> bool:
        """Whether it wants the cluster for itself."""
        return "[Serial]" in self.name or "[Disruptive]" in self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What became of a spec."""

    name: str
    passed: bool
    seconds: float
    reason: str = ""
    """Why it failed, in the suite's words."""


def programs() -> Path:
    """Build the suite unless it is built; return the folder of its programs.

    Raises:
        CalledProcessError: Go or a module is missing.
    """
    subprocess.run([BUILD], check=True)
    version = re.search(r"k8s\.io/kubernetes (v\S+)", (BUILD.parent / "go.mod").read_text())
    assert version is not None
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get("STRATO_KUBE_BIN") or cache / "strato-kube" / version[1])


class Suite:
    """The built suite.

    Args:
        programs: The folder of ``e2e.test`` and ``kubectl``.
        kubeconfig: Of the cluster under test, an administrator's.
        limit_seconds: Of one spec.
    """

    def __init__(self, programs: Path, kubeconfig: Path, limit_seconds: int) -> None:
        self._programs = programs
        self._kubeconfig = kubeconfig
        self._limit_seconds = limit_seconds

    def specs(self) -> list[Spec]:
        """Return every conformance spec, by name."""
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder) / "report.json"
            options = ["--ginkgo.dry-run", r"--ginkgo.focus=\[Conformance\]", f"--ginkgo.json-report={report}"]
            subprocess.run(self._command(*options), check=True, capture_output=True, env=self._environment())
            found = [one for one in _specs_of(report) if one["State"] == "passed"]
        return sorted((Spec(_name(one)) for one in found), key=lambda spec: spec.name)

    def run(self, spec: Spec, log: Path) -> Result:
        """Run one spec, in a process of its own that no other spec can disturb, no longer than the limit."""
        with tempfile.TemporaryDirectory() as folder, log.open("wb") as output:
            report = Path(folder) / "report.json"
            command = self._command(
                f"--ginkgo.focus= {_pattern(spec.name)}$",
                f"--ginkgo.timeout={self._limit_seconds}s",
                f"--ginkgo.grace-period={GRACE_SECONDS}s",
                f"--ginkgo.json-report={report}",
                f"--kubeconfig={self._kubeconfig}",
                f"--kubectl-path={self._programs / 'kubectl'}",
                "--provider=skeleton",
                "--disable-log-dump",
            )
            process = subprocess.Popen(
                command, cwd=folder, stdout=output, stderr=output, env=self._environment(), start_new_session=True
            )
            try:
                process.wait(self._limit_seconds + 2 * GRACE_SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                return Result(name=spec.name, passed=False, seconds=self._limit_seconds, reason="did not end in time")
            ran = [one for one in _specs_of(report) if _name(one) == spec.name] if report.exists() else []
        return _result(spec, ran)

    def _command(self, *options: str) -> list[str]:
        return [str(self._programs / "e2e.test"), "--ginkgo.no-color", "--ginkgo.silence-skips", *options]

    def _environment(self) -> dict[str, str]:
        return os.environ | {"PATH": f"{self._programs}:{os.environ['PATH']}", "KUBECONFIG": str(self._kubeconfig)}


def _result(spec: Spec, ran: Sequence[dict[str, Any]]) -> Result:
    if not ran:
        return Result(name=spec.name, passed=False, seconds=0.0, reason="the suite did not begin")
    (one,) = ran
    seconds = round(one["RunTime"] / 1e9, 1)
    if one["State"] == "passed":
        return Result(name=spec.name, passed=True, seconds=seconds)
    message = one.get("Failure", {}).get("Message", "") or f"ended as {one['State']}"
    return Result(name=spec.name, passed=False, seconds=seconds, reason=message)


def _specs_of(report: Path) -> list[dict[str, Any]]:
    """Return what a report of ginkgo's tells of each spec."""
    reports = json.loads(report.read_text())
    return [one for each in reports for one in each["SpecReports"] if one["LeafNodeType"] == "It"]


def _name(spec: dict[str, Any]) -> str:
    return " ".join([*(spec["ContainerHierarchyTexts"] or ()), spec["LeafNodeText"]])


def _pattern(name: str) -> str:
    """Return Go's regular expression for a name; Go knows fewer escapes than Python writes."""
    return re.sub(r"([\\.+*?()|\[\]{}^$])", r"\\\1", name)
