"""Time the flow engine on Quincy-shaped networks and the CPU model, next to OR-tools and LEMON on the same instances.

    python -m benchmarks.flow [--whole] [--resume] [--machines N …] [--fill 0.9 …] [--no-rivals] [--rival-limit 60]

Without options: fills from 50 to 103 % at 12,500 machines, sizes from 1,250 to 50,000 at 90 %, the pinned round and
the CPU model, in about ten minutes on two cores; `--whole` takes fills in steps of 5 % and gives rivals an hour. Every
point runs in a process of its own (so its peak memory is its own) and is kept in ``results/flow.points.json`` as soon
as it is there; `--resume` takes points of the same commit from it. Rivals that exceed their limit are shown as ``>60``.
Seconds are of a process's CPU. LEMON takes part where its headers (Debian: liblemon-dev) and a C++ compiler are.

Columns: from scratch; a round with 100 and with 1,000 changes (median, the edit of the network included; the worst
solve; milliseconds of the edit and its share of the round); peak memory; rivals from scratch and how much slower the
best of them is.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys

from benchmarks.report import RESULTS, check_writable, commit, publish

FULL = 12_500
FILLS = (0.5, 0.7, 0.9, 0.97, 1.0, 1.03)
SIZES = (1_250, 5_000, 25_000, 50_000)
WHOLE_FILLS = (*(percent / 100 for percent in range(50, 100, 5)), 0.97, 1.0, 1.03)
WHOLE_SIZES = (1_250, 2_500, 5_000, 10_000, 25_000, 50_000)
OURS_LIMIT_SECONDS = 600
HOUR = 3600
POINTS = RESULTS / "flow.points.json"
Answer = dict[str, object]


class Points:
    """Measured points by what was asked, kept on disk."""

    def __init__(self, *, resume: bool) -> None:
        self._commit = commit()
        self._known: dict[str, Answer] = {}
        if resume and POINTS.exists():
            found = json.loads(POINTS.read_text())
            self._known = found["points"] if found["commit"] == self._commit else {}

    def measure(self, limit_seconds: float, **asked: object) -> Answer:
        """Return a point's answer; ``{"over": limit}`` when it took too long."""
        key = json.dumps(asked, sort_keys=True)
        if key not in self._known:
            print("measuring", ", ".join(f"{name} {value}" for name, value in asked.items()), "…", flush=True)
            try:
                command = [sys.executable, "-m", "benchmarks.flow_point", key]
                done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=limit_seconds)
                self._known[key] = json.loads(done.stdout.splitlines()[-1])
            except subprocess.TimeoutExpired:
                self._known[key] = {"over": limit_seconds}
            RESULTS.mkdir(exist_ok=True)
            POINTS.write_text(json.dumps({"commit": self._commit, "points": self._known}, indent=1) + "\n")
        return self._known[key]


def curve_row(points: Points, machines: int, fill: float, rival_limit: float) -> dict[str, object]:
    """One row: ours, and the rivals on the same instance."""
    ours = points.measure(OURS_LIMIT_SECONDS, what="curve", machines=machines, fill=fill)
    row = _row("network", machines, fill)
    if "over" in ours:
        return row | {"cold s": f">{ours['over']:g}"}
    row["cold s"] = ours["cold"]
    for count in (100, 1000):
        row[f"{count} ms"] = _ms(ours[f"round {count}"])
        row[f"worst {count} ms"] = _ms(ours[f"worst {count}"])
        row[f"edit {count} ms"] = _ms(ours[f"update {count}"])
        row[f"edit {count} %"] = 100 * _number(ours[f"update share {count}"])
    row["peak GiB"] = ours["peak_gib"]
    rivals = {}
    for name in ("or-tools", "lemon") if rival_limit else ():
        found = points.measure(rival_limit, what=name, machines=machines, fill=fill)
        row[f"{name} s"] = found.get("cold", f">{rival_limit:g}" if "over" in found else "")
        if "cold" in found:
            assert found["cost"] == ours["cost"], f"{name} finds {found['cost']}, we {ours['cost']}"
            rivals[name] = _number(found["cold"])
    if rivals:
        row["times best"] = min(rivals.values()) / _number(ours["cold"])
    return row


def _row(what: str, machines: int, fill: float | str) -> dict[str, object]:
    rounds = [f"{name}{count} {unit}" for count in (100, 1000) for name, unit in ROUND_COLUMNS]
    columns = ["cold s", *rounds, "peak GiB", "or-tools s", "lemon s", "times best"]
    return {"what": what, "machines": machines, "fill": fill, **dict.fromkeys(columns, "")}


ROUND_COLUMNS = (("", "ms"), ("worst ", "ms"), ("edit ", "ms"), ("edit ", "%"))


def _number(value: object) -> float:
    assert isinstance(value, int | float)
    return float(value)


def _ms(value: object) -> float:
    return 1000 * _number(value)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--machines", type=int, action="append", help="sizes at 90 %% instead of 1,250 to 50,000")
    parser.add_argument("--fill", type=float, action="append", help="fills at 12,500 machines instead of 0.5 to 1.03")
    parser.add_argument("--whole", action="store_true", help="more points, and an hour for each rival")
    parser.add_argument("--resume", action="store_true", help="take what an earlier run of this commit measured")
    parser.add_argument("--no-rivals", action="store_true", help="without OR-tools and LEMON")
    parser.add_argument("--rival-limit", type=float, default=60, metavar="SECONDS", help="per rival and point; 60")
    options = parser.parse_args()
    check_writable()
    chosen = options.machines or options.fill
    fills = options.fill or (() if chosen else WHOLE_FILLS if options.whole else FILLS)
    sizes = options.machines or (() if chosen else WHOLE_SIZES if options.whole else SIZES)
    rival_limit = 0 if options.no_rivals else HOUR if options.whole else options.rival_limit
    points = Points(resume=options.resume)
    table = [curve_row(points, FULL, fill, rival_limit) for fill in fills]
    table += [curve_row(points, size, 0.9, rival_limit) for size in sizes]
    if not chosen:
        alone = points.measure(OURS_LIMIT_SECONDS, what="pinned", machines=FULL, waiting=1000)
        table.append(_row("running tasks pinned, 1,000 waiting", FULL, "") | {"cold s": alone["cold"]})
        model = points.measure(OURS_LIMIT_SECONDS, what="cpu model", machines=10_000, classes=100, tasks=10_000)
        table.append(_row("CPU model, 100 classes, 10,000 tasks", 10_000, "") | {"cold s": model["cold"]})
    publish("flow", table, "seconds of CPU; rounds are medians of 7 and 15")


if __name__ == "__main__":
    main()
