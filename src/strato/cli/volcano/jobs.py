"""Jobs: run, list, view, suspend, resume and delete (spec volcano-cli A2 and B)."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence

import click

from strato.api import catalog, quantity, yamltext
from strato.cli.volcano.asking import Failed, ask, named, order
from strato.cli.volcano.cobra import Values
from strato.cli.volcano.page import job_page
from strato.cli.volcano.texts import NOTHING_FOUND, columns, local_date
from strato.client.cluster import Cluster, Json
from strato.errors import one_line

_COLUMNS = {
    "Creation": 15, "Phase": 12, "JobType": 12, "Replicas": 12, "Min": 6, "Pending": 10, "Running": 10,
    "Succeeded": 12, "Failed": 10, "Unknown": 12, "RetryCount": 10,
}  # fmt: skip
_COUNTERS = ("minAvailable", "pending", "running", "succeeded", "failed", "unknown", "retryCount")
_SHELL = {
    "No closing quotation": "EOF found when expecting closing quote",
    "No escaped character": "EOF found after escape character",
}


def run_job(values: Values) -> None:
    """Create a job from a file, or from flags."""
    if not values["name"] and not values["filename"]:
        raise Failed("job name cannot be left blank")
    _create(values, _from_file(values["filename"]) if values["filename"] else _from_flags(values))


def submit(values: Values) -> None:
    """Create a job from flags (``vsub``)."""
    if not values["name"]:
        raise Failed("job name cannot be left blank")
    _create(values, _from_flags(values))


def _create(values: Values, body: Json) -> None:
    created = ask(values, lambda cluster: cluster.create(catalog.VCJOB, body, values["namespace"]))
    click.echo(f"run job {created['metadata']['name']} successfully")


def _from_flags(values: Values) -> Json:
    name = values["name"]
    resources = {"limits": _amounts(values["limits"]), "requests": _amounts(values["requests"])}
    container = {"name": name, "image": values["image"], "imagePullPolicy": "IfNotPresent", "resources": resources}
    if values.get("command"):
        try:
            container["command"] = shlex.split(values["command"])
        except ValueError as error:
            raise Failed(_SHELL.get(str(error), str(error))) from error
    template = {
        "metadata": {"name": name, "labels": {"job.volcano.sh": name}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    return {
        "apiVersion": catalog.VCJOB.api_version,
        "kind": "Job",
        "metadata": {"name": name, "namespace": values["namespace"]},
        "spec": {
            "schedulerName": values["scheduler"],
            "minAvailable": values["min"],
            "tasks": [{"replicas": values["replicas"], "template": template}],
        },
    }


def _amounts(text: str) -> dict[str, str]:
    amounts = {}
    for part in text.split(",") if text else ():
        name, *amount = part.split("=")
        if len(amount) != 1:
            raise Failed(f"invalid argument syntax {part}, expected <resource>=<value>")
        amounts[name] = quantity.canonical(amount[0])
    return amounts


def _from_file(filename: str) -> Json:
    if ".yaml" not in filename and ".yml" not in filename:
        raise Failed("only support yaml file")
    try:
        body = yamltext.load(read_file(filename, "failed to read file, err: "))
    except yamltext.InvalidYaml as error:
        raise Failed(f"failed to unmarshal file, err:  {one_line(error)}") from error
    if not isinstance(body, dict) or body.get("kind", "Job") != "Job":
        found = body.get("kind") if isinstance(body, dict) else type(body).__name__
        raise Failed(f"failed to unmarshal file, err:  it holds {found}, not a Job")
    return {"apiVersion": catalog.VCJOB.api_version, "kind": "Job", **body}


def read_file(filename: str, before: str = "") -> str:
    """Return the text of a file."""
    try:
        with open(filename, encoding="utf-8") as file:  # not Path: Path("") is the current folder
            return file.read()
    except OSError as error:
        verb = "read" if isinstance(error, IsADirectoryError) else "open"
        raise Failed(f"{before}{verb} {filename}: {(error.strerror or str(error)).lower()}") from error
    except UnicodeDecodeError as error:
        raise Failed(f"{before}{filename} is not UTF-8 text") from error


def list_jobs(values: Values) -> None:
    """Print the table of jobs (``vcctl job list``)."""
    jobs = _selected(_read_jobs(values), values)
    click.echo(_table(jobs, values) if jobs else NOTHING_FOUND, nl=False)


def list_or_view(values: Values) -> None:
    """Print the page of a job, or a table (``vjobs``) whose widths are those of all jobs, even if it has no rows."""
    if values["name"]:
        view_job(values, conditions=False)
        return
    jobs = _read_jobs(values)
    click.echo(_table(_selected(jobs, values), values, fitted_to=jobs) if jobs else NOTHING_FOUND, nl=False)


def _read_jobs(values: Values) -> Sequence[Json]:
    scope = "" if values["all-namespaces"] else values["namespace"]
    return ask(values, lambda cluster: cluster.list(catalog.VCJOB, scope)).items


def _selected(jobs: Sequence[Json], values: Values) -> list[Json]:
    wanted = {"queue": values.get("queue"), "schedulerName": values["scheduler"]}
    return [
        job
        for job in jobs
        if values["selector"] in job["metadata"]["name"]
        and all(not value or job["spec"].get(member, "") == value for member, value in wanted.items())
    ]


def _table(jobs: Sequence[Json], values: Values, fitted_to: Sequence[Json] | None = None) -> str:
    metas = [job["metadata"] for job in (jobs if fitted_to is None else fitted_to)]
    first = {"Namespace": "namespace", "Name": "name"} if values["all-namespaces"] else {"Name": "name"}
    widths = [max(len(title), *(len(meta[member]) for meta in metas)) + 3 for title, member in first.items()]
    rows = [[*(job["metadata"][member] for member in first.values()), *_cells(job)] for job in jobs]
    return columns([*widths, *_COLUMNS.values()], [[*first, *_COLUMNS], *rows])


def _cells(job: Json) -> list[object]:
    meta, status = job["metadata"], job.get("status") or {}
    return [
        local_date(meta.get("creationTimestamp")),
        (status.get("state") or {}).get("phase", ""),
        (meta.get("labels") or {}).get("volcano.sh/job-type") or "Batch",
        sum(task.get("replicas", 0) for task in job["spec"].get("tasks") or ()),
        *(status.get(counter, 0) for counter in _COUNTERS),
    ]


def view_job(values: Values, *, conditions: bool = True) -> None:
    """Print the page of a job."""
    name = named(values, "job name (specified by --name or -N) is mandatory to view a particular job")

    async def work(cluster: Cluster) -> str:
        job = await cluster.get(catalog.VCJOB, name, values["namespace"])
        events = await cluster.list(catalog.EVENT, values["namespace"])
        return job_page(job, events.items, conditions=conditions)

    click.echo(ask(values, work), nl=False)


def delete_job(verb: str) -> Callable[[Values], None]:
    """Return the verb that deletes a job and says so: ``delete``, or ``cancel``."""

    def run(values: Values) -> None:
        name = named(values, f"job name is mandatory to {verb} a particular job")
        ask(values, lambda cluster: cluster.delete(catalog.VCJOB, name, values["namespace"]))
        click.echo(f"{verb} job {name} successfully")

    return run


def order_job(verb: str, action: str) -> Callable[[Values], None]:
    """Return the verb that requests an action of the job controller; it prints nothing."""

    def run(values: Values) -> None:
        name = named(values, f"job name is mandatory to {verb} a particular job")
        order(values, catalog.VCJOB, name, action, values["namespace"])

    return run
