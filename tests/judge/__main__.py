"""``python -m tests.judge [CASE…]``: prints what differs between Kubeflow's operators and ours, and why."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.e2e.gobuild import NotBuilt
from tests.judge.cases import Case, cases, cases_by_ssh
from tests.judge.comparison import Difference, differences
from tests.judge.known import reason_for
from tests.judge.play import Record, record
from tests.judge.sides import MPI, TRAINING, MpiOperator, Ours, Side, TrainingOperator, programs, version


def built() -> None:
    """Build Kubeflow's operators; the first call takes minutes.

    Raises:
        NotBuilt: There is no Go, or a module cannot be had.
    """
    programs("training", TRAINING, "training-operator.v1")
    programs("mpi", MPI, "mpi-operator")


def recorded(make: type[Side], chosen: Sequence[Case]) -> Record:
    """Return what a side makes of cases."""
    if not chosen:
        return {}
    with tempfile.TemporaryDirectory(prefix=f"strato-judge-{make.name}-") as directory:
        side = make(Path(directory))
        try:
            side.start()
            seen = record(side, chosen)
            side.check()
            return seen
        finally:
            side.stop()


def judge(chosen: Sequence[str] = ()) -> tuple[int, list[Difference]]:
    """Run the cases on both sides; return how many snapshots were compared, and how they differ."""
    groups = [(TrainingOperator, cases()), (MpiOperator, cases_by_ssh())]
    groups = [(make, [case for case in group if not chosen or case.id in chosen]) for make, group in groups]
    ours = recorded(Ours, [case for _, group in groups for case in group])
    found: list[Difference] = []
    compared = 0
    for make, group in groups:
        theirs = recorded(make, group)
        for name, steps in theirs.items():
            for step, (one, other) in enumerate(zip(steps, ours[name], strict=True)):
                compared += 1
                found += differences(name, step, one, other)
    return compared, found


def table(found: Sequence[Difference], *, everything: bool) -> str:
    """Return the differences as lines, and how often each judgement was given."""
    lines = []
    for one in found:
        if everything or not reason_for(one):
            theirs, ours = json.dumps(one.theirs)[:160], json.dumps(one.ours)[:160]
            lines.append(f"{one.case} step {one.step}: {one.path}\n    theirs: {theirs}\n    ours:   {ours}")
    for why, count in Counter(map(reason_for, found)).most_common():
        lines.append(f"{count:5} {why or 'not known'}")
    return "\n".join(lines)


def main() -> int:
    """Judge and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*")
    parser.add_argument("--all", action="store_true", help="print differences with a known reason too")
    arguments = parser.parse_args()
    try:
        built()
    except NotBuilt as error:
        sys.stdout.write(f"tests.judge: skipped, Kubeflow's operators cannot be built: {error}\n")
        return 0
    compared, found = judge(arguments.cases)
    new = [one for one in found if not reason_for(one)]
    sys.stdout.write(table(found, everything=arguments.all) + "\n")
    sys.stdout.write(
        f"training-operator {version('training')}, mpi-operator {version('mpi')}: {compared} snapshots compared, "
        f"{len(found)} differences, {len(new)} of them not known\n"
    )
    return 1 if new else 0


if __name__ == "__main__":
    sys.exit(main())
