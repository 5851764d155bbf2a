"""`page_of`: the report of an experiment as one HTML page without scripts and external files, also dark and for print.

Names of jobs, queues and policies come from users, so they are escaped, and a content security policy forbids the page
to load or run anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

from strato.sim.experiments.results import METRICS, Results, RunResult
from strato.sim.pictures.canvas import Picture
from strato.sim.report import SimulationReport, never_started, short_duration
from strato.sim.results.statistics import Estimate

_MOST_ROWS: Final = 30
"""Most rows of a table of jobs or tenants."""
_SECTIONS: Final = (
    ("Over the parameters", ("sweep",)),
    ("Policies side by side", ("side-by-side", "job-by-job")),
    ("Waits", ("wait-by-size", "wait-by-tenant", "slowdown")),
    ("The cluster over time", ("utilisation", "fragmentation")),
    ("Queues and fairness", ("fairness", "queue-shares-")),
    ("Evictions", ("evictions",)),
    ("Who ran where", ("nodes-", "jobs-")),
)
_STYLE: Final = """
:root { color-scheme: light dark; --paper: #ffffff; --ink: #1f2328; --faint: #59636e; --grid: #d1d9e0; --box: #f6f8fa; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #0d1117; --ink: #e6edf3; --faint: #9198a1; --grid: #3d444d; --box: #161b22; } }
@media print { :root { --paper: #fff; --ink: #000; --faint: #444; --grid: #bbb; --box: #fff; }
  nav { display: none; } figure, tr { break-inside: avoid; } details > * { display: block; } }
body { background: var(--paper); color: var(--ink); max-width: 64rem; margin: 2rem auto; padding: 0 1rem;
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", sans-serif; }
h1 { font-size: 1.6rem; margin-bottom: 0; }
h2 { font-size: 1.2rem; margin-top: 2.2rem; border-bottom: 1px solid var(--grid); }
h3 { font-size: 1rem; margin: 1.4rem 0 0.2rem; } p, figcaption { color: var(--faint); margin: 0.2rem 0 0.6rem; }
nav { margin: 1rem 0; } nav a { margin-right: 1rem; color: inherit; }
figure { margin: 0 0 1.4rem; } figure svg { width: 100%; height: auto; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: 0.87rem; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: 0.2rem 0.7rem 0.2rem 0; border-bottom: 1px solid var(--grid);
  vertical-align: top; }
th { color: var(--faint); font-weight: 500; } th:first-child, td:first-child, td.text, th.text { text-align: left; }
td.text { overflow-wrap: anywhere; }
"""


def page_of(results: Results, pictures: Sequence[Picture]) -> str:
    """Return the page of an experiment's results."""
    parts = [
        f"<h1>{_text(results.experiment)}</h1>",
        f"<p>{_overview(results)}</p>",
        "<nav>"
        + "".join(f'<a href="#{_anchor(title)}">{title}</a>' for title, _ in _titles(results, pictures))
        + "</nav>",
    ]
    for title, body in _titles(results, pictures):
        parts += [f'<h2 id="{_anchor(title)}">{title}</h2>', body]
    head = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
        'img-src data:"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{_text(results.experiment)}: simulation</title><style>{_STYLE}</style></head>\n<body>\n"
    )
    return head + "\n".join(parts) + "\n</body></html>\n"


def _titles(results: Results, pictures: Sequence[Picture]) -> list[tuple[str, str]]:
    """Return title and body of the sections that are not empty."""
    found = [("Summary", _summary(results))]
    extra = {
        "Policies side by side": _differences(results),
        "Queues and fairness": _queues(results),
        "Evictions": _evictions(results),
    }
    for title, names in _SECTIONS:
        mine = [one for one in pictures if one.name.startswith(names)]
        body = extra.get(title, "") + "".join(map(_figure, mine))
        if body:
            found.append((title, body))
    found.append(("Jobs", _jobs(results)))
    if results.failures:
        found.append(("Runs that failed", _table(("RUN", "WHY"), results.failures.items(), texts=2)))
    return found


def _overview(results: Results) -> str:
    count = (
        f"{len(results.runs)} of {results.runs_planned} runs"
        if len(results.runs) < results.runs_planned
        else (f"{results.runs_planned} run" + ("s" if results.runs_planned != 1 else ""))
    )
    nodes = dict.fromkeys(run.report.nodes for run in results.runs)
    on = f" on {_text('; '.join(nodes))}" if nodes else ""
    return f"{count} of {_text(results.trace)}{on}; fidelity: {_text(results.fidelity)}."


def _summary(results: Results) -> str:
    """Return the table of all policies and variants: means over seeds with their intervals."""
    names = [
        name
        for name in METRICS
        if any(summary.metrics[name].mean for summary in results.summaries) or name.endswith("wait, s")
    ]
    rows = [
        (
            ", ".join(part for part in (summary.policy, summary.variant) if part) or "run",
            str(summary.seeds),
            *(_estimate(name, summary.metrics[name]) for name in names),
        )
        for summary in results.summaries
    ]
    seeds = any(summary.seeds > 1 for summary in results.summaries)
    note = "<p>Means over seeds; in brackets Student's intervals of 95 %.</p>" if seeds else ""
    heads = [name.removesuffix(", s") for name in names]
    return note + _table(("POLICY", "SEEDS", *heads), rows)


def _estimate(name: str, found: Estimate) -> str:
    def text(value: float) -> str:
        if name.endswith(", s"):
            return short_duration(value)
        if name.startswith("cpu"):
            return f"{value:.1%}"
        return f"{value:,.0f}" if value == int(value) and abs(value) >= 2 else f"{value:.3f}"

    if found.low is None or found.high is None:
        return text(found.mean)
    return f"{text(found.mean)} [{text(found.low)} … {text(found.high)}]"


def _differences(results: Results) -> str:
    if not results.differences:
        return ""
    rows = []
    for difference in results.differences:
        waits, mean = difference.waits, difference.waits.mean_wait_difference
        interval = (
            ""
            if mean.low is None or mean.high is None
            else (f"{short_duration(mean.low)} … {short_duration(mean.high)}")
        )
        rows.append(
            (
                f"{waits.second} against {waits.first}" + (f", {difference.variant}" if difference.variant else ""),
                str(difference.seed),
                f"{waits.jobs:,}",
                short_duration(mean.mean),
                interval,
                short_duration(waits.median_wait_difference_seconds),
                f"{waits.shorter:,}",
                f"{waits.longer:,}",
            )
        )
    heads = ("JOB BY JOB", "SEED", "JOBS", "MEAN WAIT DIFFERS BY", "95 % (BOOTSTRAP)", "MEDIAN", "SHORTER", "LONGER")
    return _table(heads, rows)


def _queues(results: Results) -> str:
    rows = []
    for run in _first_seeds(results):
        for name, queue in list(run.report.queues.items())[:_MOST_ROWS]:
            shares = (queue.held_share, queue.deserved_share, queue.drf_share, queue.drf_distance)
            rows.append(
                (
                    f"{_label(run)}: {name}",
                    f"{queue.finished:,}/{queue.jobs:,}",
                    short_duration(queue.wait_seconds.mean),
                    f"{queue.bounded_slowdown.mean:.2f}",
                    *(f"{share:.1%}" for share in shares),
                )
            )
    jain = [
        f"{_text(_label(run))}: {run.report.slowdown_fairness:.3f} of slowdowns, "
        f"{run.report.drf_fairness:.3f} of DRF shares"
        for run in _first_seeds(results)
    ]
    note = f"<p>Jain's index (1 is fair): {'; '.join(jain)}.</p>" if jain else ""
    heads = ("QUEUE", "DONE", "WAIT", "SLOWDOWN", "HELD", "DESERVED", "DRF SHARE", "DISTANCE")
    return note + _table(heads, rows)


def _evictions(results: Results) -> str:
    rows = [
        (
            _label(run),
            str(run.seed),
            f"{found.pods:,}",
            f"{found.jobs:,}",
            f"{found.beneficiaries:,}",
            f"{found.helped:,}",
            f"{found.never_helped:,}",
            short_duration(found.median_seconds_until_start),
            f"{found.cpu_seconds_lost / 3600:,.1f}",
            f"{found.gpu_seconds_lost / 3600:,.1f}",
        )
        for run in results.runs[:_MOST_ROWS]
        if (found := run.report.evictions).pods
    ]
    if not rows:
        return ""
    heads = (
        "POLICY",
        "SEED",
        "PODS",
        "JOBS",
        "FOR JOBS",
        "STARTED",
        "NOT",
        "MEDIAN UNTIL START",
        "CPU H LOST",
        "GPU H LOST",
    )
    return _table(heads, rows)


def _jobs(results: Results) -> str:
    parts = []
    for run in _first_seeds(results):
        parts.append(f"<h3>{_text(_label(run))}: jobs that never started</h3>")
        held = never_started(run.report)
        rows = [(reason, f"{len(names):,}", ", ".join(names[:5])) for reason, names in held.items()]
        parts.append(
            _table(("REASON", "JOBS", "FOR EXAMPLE"), rows[:_MOST_ROWS], texts=3)
            if rows
            else "<p>All have started.</p>"
        )
        parts.append(f"<h3>{_text(_label(run))}: longest waits</h3>" + _longest(run.report))
    return "".join(parts)


def _longest(report: SimulationReport) -> str:
    waits = sorted(
        ((job.start_seconds - job.submit_seconds, job) for job in report.job_list if job.start_seconds is not None),
        key=lambda pair: (-pair[0], pair[1].name),
    )
    rows = [
        (job.name, job.queue, str(job.replicas), short_duration(wait), short_duration(job.submit_seconds))
        for wait, job in waits[:10]
    ]
    return _table(("JOB", "QUEUE", "PODS", "WAITED", "SUBMITTED AT"), rows, texts=2)


def _first_seeds(results: Results) -> list[RunResult]:
    found: dict[tuple[str, str], RunResult] = {}
    for run in results.runs:
        found.setdefault((run.policy, run.variant), run)
    return list(found.values())


def _label(run: RunResult) -> str:
    return ", ".join(part for part in (run.policy, run.variant) if part) or "run"


def _figure(picture: Picture) -> str:
    caption = f"<h3>{_text(picture.title)}</h3><figcaption>{_text(picture.text)}</figcaption>"
    return f'<figure id="{picture.name}">{caption}{picture.inline()}</figure>'


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]], texts: int = 1) -> str:
    """Return a table; the first ``texts`` columns hold text, the others numbers."""

    def cell(tag: str, at: int, text: str) -> str:
        kind = ' class="text"' if at < texts and at else ""
        return f"<{tag}{kind}>{_text(text)}</{tag}>"

    head = "".join(cell("th", at, text) for at, text in enumerate(heads))
    body = "".join("<tr>" + "".join(cell("td", at, text) for at, text in enumerate(row)) + "</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _text(text: str) -> str:
    """Return a text escaped for the page, with control characters replaced, as HTML allows none."""
    return escape("".join(sign if sign.isprintable() else "�" for sign in text))


def _anchor(title: str) -> str:
    return f"section-{title.lower().replace(' ', '-')}"
