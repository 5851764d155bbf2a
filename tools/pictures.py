"""Draw the pictures of the documentation: python tools/pictures.py.

worlds.svg  the three worlds
run.svg     from run.json, which examples/parameter-server/demo.py --json wrote
kube.svg    from kube.json, the results of benchmarks.kube --peer volcano --nodes 300 --gangs 40 --singles 0
overload.svg  from overload.json, the --trace of benchmarks.overload --isolate
schools.svg  from schools.json, the means of what the command of examples/schools/README.md --json wrote
utilisation.svg  from utilisation.json, which strato sim utilisation examples/utilisation/deployment.yaml --json wrote
million.svg  from million.json, which benchmarks.million wrote; left out where that is not there
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

IMAGES = Path(__file__).parents[1] / "docs" / "images"
WIDTH = 760
GANGS = ("#4c78a8", "#d9822b", "#3f9b6c", "#b5508f", "#7a68b3")
OURS, THEIRS = "#4c78a8", "#a8a29a"
STYLE = """
  .page { fill: #ffffff; } .ink { fill: #1f2328; } .faint { fill: #59636e; }
  .line { stroke: #d1d9e0; } .box { fill: #f2f5f8; stroke: #d1d9e0; }
  text { font: 13px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; }
  .code { font-family: ui-monospace, "DejaVu Sans Mono", monospace; }
  .strong { font-weight: 600; } .on { fill: #ffffff; font-weight: 600; }
  .middle { text-anchor: middle; } .end { text-anchor: end; }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117; } .ink { fill: #e6edf3; } .faint { fill: #9198a1; }
    .line { stroke: #3d444d; } .box { fill: #161b22; stroke: #3d444d; }
  }
"""
"""Every picture brings its background, so that it can be read whatever the page around it looks like."""


def text(x: float, y: float, words: str, style: str = "ink") -> str:
    """Return words at a place."""
    return f'<text x="{x:g}" y="{y:g}" class="{style}">{escape(words)}</text>'


def box(x: float, y: float, width: float, height: float, *, fill: str = "") -> str:
    """Return a rectangle, of the page's own colour without ``fill``."""
    how = f'fill="{fill}"' if fill else 'class="box"'
    return f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="3" {how}/>'


def line(x1: float, y1: float, x2: float, y2: float) -> str:
    """Return a thin line."""
    return f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" class="line"/>'


def picture(title: str, height: float, parts: Sequence[str]) -> str:
    """Return a whole picture."""
    size = f'viewBox="0 0 {WIDTH} {height:g}" width="{WIDTH}" height="{height:g}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">'
    page = f'<rect width="{WIDTH}" height="{height:g}" rx="6" class="page"/>'
    return "\n".join([head, f"<title>{escape(title)}</title>", f"<style>{STYLE}</style>", page, *parts, "</svg>", ""])


def on_cpus(
    pods: Mapping[str, Mapping[str, Mapping[str, float]]], cpus: int
) -> Iterator[tuple[int, str, float, float]]:
    """Yield CPU, job, start and end of each pod: every pod holds one CPU, the lowest that is free."""
    free_since = [0.0] * cpus
    of_all = [(times["bound"], job, times["ended"]) for job, by_pod in pods.items() for times in by_pod.values()]
    for start, job, end in sorted(of_all):
        cpu = next(n for n, since in enumerate(free_since) if since <= start)
        free_since[cpu] = end
        yield cpu, job, start, end


def run_picture(run: Mapping[str, Any]) -> str:
    """Draw who held which CPU when."""
    cpus, pods = run["cpus"], run["pods"]
    placed = list(on_cpus(pods, cpus))
    last = max(end for *_, end in placed)
    left, top, row = 62, 52, 17
    scale = (WIDTH - left - 20) / last
    bottom = top + cpus * row
    colour = dict(zip(sorted(pods), GANGS, strict=True))
    parts = [text(16, 22, f"make demo: five gangs of six pods on {cpus} CPUs", "ink strong")]
    parts.append(
        text(16, 40, "Three CPUs idle rather than hold half a gang: nobody blocks anybody, and all end.", "faint")
    )
    for cpu in range(cpus):
        parts.append(text(left - 8, top + cpu * row + 13, f"CPU {cpu + 1}", "faint end"))
        parts.append(line(left, top + (cpu + 1) * row, WIDTH - 20, top + (cpu + 1) * row))
    for cpu, job, start, end in placed:
        parts.append(box(left + start * scale, top + cpu * row + 1, (end - start) * scale, row - 2, fill=colour[job]))
    for job in sorted(pods):
        mine = [(start, end) for _, owner, start, end in placed if owner == job]
        middle = (min(mine)[0] + max(end for _, end in mine)) / 2
        parts.append(text(left + middle * scale, top + 2.5 * row + 5, job, "on middle"))
    seconds = range(0, int(last) + 1, 1 if last < 9 else 2)
    parts += [text(left + second * scale, bottom + 16, f"{second} s", "faint middle") for second in seconds]
    return picture("A run of the demo: which gang held which CPU when", bottom + 28, parts)


WORLDS = (
    ("laptop", "strato up", "embedded, journal on disk", "this machine, in sandboxes", "real"),
    ("simulator", "strato sim run", "embedded, in memory", "hollow, by the ten thousand", "virtual: a week in seconds"),
    ("production", "strato install", "your cluster's", "your kubelets", "real"),
)


def worlds_picture() -> str:
    """Draw one engine in three worlds."""
    gap, side = 16, 16
    width = (WIDTH - 2 * side - 2 * gap) / 3
    parts = []
    for number, (name, command, server, nodes, clock) in enumerate(WORLDS):
        x = side + number * (width + gap)
        parts += [box(x, 16, width, 52), text(x + width / 2, 38, name, "ink strong middle")]
        parts.append(text(x + width / 2, 57, command, "faint middle code"))
        parts.append(line(x + width / 2, 68, x + width / 2, 84))
        parts.append(line(x + width / 2, 144, x + width / 2, 160))
        parts.append(box(x, 160, width, 120))
        for row, (what, value) in enumerate((("API server", server), ("nodes", nodes), ("clock", clock))):
            parts += [text(x + 12, 181 + row * 37, what, "faint"), text(x + 12, 198 + row * 37, value)]
    parts.append(box(side, 84, WIDTH - 2 * side, 60, fill=OURS))
    parts.append(text(WIDTH / 2, 110, "the same scheduler, controllers and admission", "on middle"))
    parts.append(text(WIDTH / 2, 130, "the same queues, gangs, policies and plugins", "on middle"))
    return picture("One engine in three worlds: laptop, simulator, production", 294, parts)


SHOWN = (("scheduler cpu s", "scheduler"), ("controllers cpu s", "controllers"))


def kube_picture(report: Mapping[str, Any]) -> str:
    """Draw what scheduler and controllers of both sides cost for the same work."""
    rows = {row["scheduled by"]: row for row in report["rows"] if row["workload"] == "gangs"}
    ours, theirs = rows["strato"], rows["volcano"]
    left, top, row = 180, 64, 24
    most = max(float(side[key]) for side in rows.values() for key, _ in SHOWN)
    scale = (WIDTH - left - 90) / most
    what = f"CPU seconds to run {ours['pods']:,} pods in gangs of 50 on 300 nodes"
    parts = [text(16, 22, what, "ink strong")]
    parts.append(text(16, 42, "each side on a kube-apiserver of its own, one after the other on one machine", "faint"))
    y = float(top)
    for key, what in SHOWN:
        for name, side, colour in (("Volcano", theirs, THEIRS), ("Strato", ours, OURS)):
            value = float(side[key])
            parts.append(text(left - 10, y + 15, f"{what}, {name}", "ink end"))
            parts.append(box(left, y, max(value * scale, 1), row - 5, fill=colour))
            parts.append(text(left + value * scale + 8, y + 15, f"{value:.1f} s"))
            y += row
        y += 8
    return picture("CPU time of scheduler and controllers, Strato beside Volcano", y + 8, parts)


BARS = (
    ("trainings started", lambda one: one["runs"]["runs"], "{:.0f}"),
    ("mean wait, minutes", lambda one: (one["runs"]["mean_wait"] or 0.0) / 60, "{:.1f}"),
    ("CPU of nodes, mean %", lambda one: (one["hosts"]["mean"] or 0.0) * 100, "{:.0f}"),
    ("CPU services miss, %", lambda one: one["online"]["unserved_ratio"] * 100, "{:.2f}"),
)


def utilisation_picture(report: Mapping[str, Any]) -> str:
    """Draw what each variant of the experiment comes to, side by side."""
    variants = report["variants"]
    left, top, row, gap = 130, 84, 22, 16
    width = (WIDTH - left - 16 - gap * (len(BARS) - 1)) / len(BARS)
    parts = [
        text(
            16,
            22,
            "A day of 200 trainings beside services: what gangs, overcommit and suppression contribute",
            "ink strong",
        )
    ]
    parts.append(
        text(16, 42, "strato sim utilisation deployment.yaml; each bar is one simulated day on 20 nodes", "faint")
    )
    for number, one in enumerate(variants):
        parts.append(text(left - 10, top + number * row + 15, one["name"], "ink end"))
    for column, (title, value_of, shown) in enumerate(BARS):
        x = left + column * (width + gap)
        values = [float(value_of(one)) for one in variants]
        scale = (width - 44) / (max(values) or 1.0)
        parts.append(text(x, top - 14, title, "faint"))
        for number, value in enumerate(values):
            y = top + number * row
            colour = OURS if variants[number]["name"] == "all" else THEIRS
            parts.append(box(x, y, max(value * scale, 1), row - 6, fill=colour))
            parts.append(text(x + value * scale + 6, y + 13, shown.format(value)))
    return picture("Trainings, waits, CPU and missing CPU of services by variant", top + len(variants) * row + 8, parts)


MARKS = (1, 10, 100, 1000, 10000)
"""Milliseconds that have a line."""


def overload_picture(rounds: Sequence[Mapping[str, Any]]) -> str:
    """Draw the worst hundredth of a service's requests, second by second, with the agent and without."""
    left, top, height, last = 70, 70, 200, 13
    least, most = (math.log10(MARKS[0]), math.log10(MARKS[-1]))
    scale = (WIDTH - left - 110) / (last + 3)

    def x(second: float) -> float:
        return left + (second + 3) * scale

    def y(milliseconds: float) -> float:
        part = (math.log10(max(milliseconds, MARKS[0])) - least) / (most - least)
        return top + height * (1 - part)

    parts = [text(16, 22, "A node is overloaded by training: 99th percentile of a service's latency", "ink strong")]
    parts.append(
        text(
            16,
            42,
            "16 training pods on 2 cores, the last begins at 0 s; 3 ms are the request's own work",
            "faint",
        )
    )
    for mark in MARKS:
        words = f"{mark} ms" if mark < 1000 else f"{mark // 1000} s"
        parts += [line(left, y(mark), WIDTH - 110, y(mark)), text(left - 8, y(mark) + 4, words, "faint end")]
    parts += [text(x(second), top + height + 18, f"{second} s", "faint middle") for second in range(-2, last + 1, 3)]
    for one in rounds:
        colour, name = (OURS, "with the agent") if one["suppressed"] else (THEIRS, "without")
        shown = [(second, value) for second, value in one["p99_ms"] if -3 <= second <= last]
        points = " ".join(f"{x(second):.1f},{y(value):.1f}" for second, value in shown)
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2.5"/>')
        parts.append(text(x(shown[-1][0]) + 8, y(shown[-1][1]) + 4, name))
        if one["suppressed"] and one["reaction"]:
            parts.append(line(x(one["reaction"]), top, x(one["reaction"]), top + height))
            parts.append(text(x(one["reaction"]) + 4, top - 6, f"first cut, after {one['reaction']:.1f} s", "faint"))
    return picture("Latency of a service on an overloaded node, with the agent and without", top + height + 30, parts)


TENANTS = ("production", "research", "training")
SCHOOLS = {
    "volcano": "Volcano",
    "yarn-fair": "YARN fair",
    "mesos": "Mesos DRF",
    "firmament": "Firmament flow",
    "easy": "EASY",
}


def schools_picture(report: Mapping[str, Any]) -> str:
    """Draw how long each tenant waits under each school."""
    left, top, row, gap = 130, 84, 22, 16
    width = (WIDTH - left - 16 - gap * (len(TENANTS) - 1)) / len(TENANTS)
    parts = [text(16, 22, "Mean wait by tenant, minutes: one trace under five schools", "ink strong")]
    how = f"strato sim run {report['trace']} --nodes {report['nodes']}; every school meets the same 408 jobs"
    parts.append(text(16, 42, how, "faint"))
    policies = report["policies"]
    for number, name in enumerate(policies):
        parts.append(text(left - 10, top + number * row + 15, SCHOOLS[name], "ink end"))
    for column, tenant in enumerate(TENANTS):
        x = left + column * (width + gap)
        minutes = [one["mean_wait_seconds"][tenant] / 60 for one in policies.values()]
        scale = (width - 44) / max(minutes)
        parts.append(text(x, top - 14, tenant, "faint"))
        for number, value in enumerate(minutes):
            y = top + number * row
            parts.append(box(x, y, max(value * scale, 1), row - 6, fill=GANGS[number]))
            parts.append(text(x + value * scale + 6, y + 13, f"{value:.1f}"))
    return picture("Mean wait of three tenants under five schools", top + len(policies) * row + 8, parts)


_RATE_SAMPLES = 10
"""Samples, of two seconds each, over which a rate is taken."""


def million_picture(result: Mapping[str, Any]) -> str:
    """Draw rate and memory against the pods that run."""
    samples, summary = result["samples"], result["summary"]
    left, top, height, gap, pods = 112, 76, 150, 60, summary["pods"]
    width = WIDTH - left - 50

    def x(count: float) -> float:
        return left + width * count / pods

    def curve(base: float, points: Sequence[tuple[float, float]], most: float, bar: float, unit: str) -> list[str]:
        def y(value: float) -> float:
            return base + height * (1 - value / most)

        parts = []
        for mark in sorted({0.0, bar, most}):
            parts += [
                line(left, y(mark), left + width, y(mark)),
                text(left - 8, y(mark) + 4, f"{mark:,.0f}", "faint end"),
            ]
        parts.append(text(left, base - 8, unit, "faint"))
        track = " ".join(f"{x(count):.1f},{y(value):.1f}" for count, value in points)
        parts.append(f'<polyline points="{track}" fill="none" stroke="{OURS}" stroke-width="2.5"/>')
        parts += [
            text(x(pods * part / 4), base + height + 18, f"{pods * part // 4:,}", "faint middle") for part in range(5)
        ]
        return parts

    # jobs of 500 pods report together: over fewer samples the rate would only show their beat
    rates = [
        (after["running"], (after["running"] - before["running"]) / (after["second"] - before["second"]))
        for before, after in zip(samples, samples[_RATE_SAMPLES:], strict=False)
        if after["second"] > before["second"]
    ]
    memory = [(one["running"], sum(one["rss_mib"]) / 1024) for one in samples]
    fastest, largest = max(rate for _, rate in rates), max(8.0, *(gib for _, gib in memory))
    title = f"{pods:,} live pods on {summary['nodes']:,} hollow nodes"
    parts = [
        text(16, 22, title, "ink strong"),
        text(
            16,
            42,
            "pods per second that begin to run (over 20 s), and memory of all processes, against the pods that run",
            "faint",
        ),
    ]
    parts += curve(top, rates, max(fastest, 2000.0), 2000.0, "pods/s")
    parts += curve(top + height + gap, memory, largest, 8.0, "GiB")
    return picture(title, top + 2 * height + gap + 40, parts)


def drawn() -> dict[str, str]:
    """Return each picture's file name and content."""
    pictures = {"worlds.svg": worlds_picture()}
    pictures["run.svg"] = run_picture(json.loads((IMAGES / "run.json").read_text()))
    pictures["kube.svg"] = kube_picture(json.loads((IMAGES / "kube.json").read_text()))
    pictures["schools.svg"] = schools_picture(json.loads((IMAGES / "schools.json").read_text()))
    pictures["utilisation.svg"] = utilisation_picture(json.loads((IMAGES / "utilisation.json").read_text()))
    pictures["overload.svg"] = overload_picture(json.loads((IMAGES / "overload.json").read_text()))
    if (IMAGES / "million.json").exists():
        pictures["million.svg"] = million_picture(json.loads((IMAGES / "million.json").read_text()))
    return pictures


if __name__ == "__main__":
    for name, content in drawn().items():
        (IMAGES / name).write_text(content)
        print(IMAGES / name)
