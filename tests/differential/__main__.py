"""``python -m tests.differential [--seed 1] [--requests 10000]``: prints what differs; needs the control plane."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections import Counter

from tests.differential.comparison import embedded_answers, parted, real_answers
from tests.differential.known import reason_for
from tests.differential.requests import STEPS, cases
from tests.server.rest.record import kube_apiserver


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--requests", type=int, default=10_000)
    arguments = parser.parse_args()
    made = list(cases(arguments.seed, arguments.requests // STEPS))
    ours = embedded_answers(made)
    with kube_apiserver() as server:
        theirs = asyncio.run(real_answers(server, made))
    found = list(parted(made, ours, theirs))
    new = [difference for difference in found if not reason_for(difference)]
    for difference in new:
        sys.stdout.write(f"{difference}\n")
    for reason, count in Counter(map(reason_for, found)).most_common():
        sys.stdout.write(f"{count:5} {reason or 'not known'}\n")
    sys.stdout.write(f"{len(made) * STEPS} requests, {len(found)} differences, {len(new)} of them not known\n")
    return 1 if new else 0


if __name__ == "__main__":
    sys.exit(main())
