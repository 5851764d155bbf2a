"""Job flows and job templates: create, list, get, delete and describe (spec volcano-cli A5)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import click

from strato.api import catalog, yamltext
from strato.api.kinds import Kind
from strato.cli.volcano.asking import Failed, ask, named
from strato.cli.volcano.cobra import Values
from strato.cli.volcano.jobs import read_file
from strato.cli.volcano.texts import NOTHING_FOUND, age, fitted, indented_json, sorted_yaml
from strato.client.cluster import Cluster, Json
from strato.errors import ApiError, one_line

_WRITERS = {"json": indented_json, "yaml": sorted_yaml}
_META = ("name", "generateName", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp")
"""Members of metadata in the order in which client-go writes them."""
_NO_TIMES = {"startTimestamp": None, "endTimestamp": None}


class Flows:
    """The verbs over one of the two kinds."""

    def __init__(self, kind: Kind, noun: str) -> None:
        self.kind, self.noun = kind, noun

    def create(self, values: Values) -> None:
        """Create every document of a file; a failure neither stops the others nor changes the exit status."""
        self._each(values, "create", "Created", lambda cluster, body, ns: cluster.create(self.kind, body, ns))

    def list(self, values: Values) -> None:
        """Print the table of a namespace, or of all."""
        scope = "" if values.get("all-namespaces") else values["namespace"]
        items = ask(values, lambda cluster: cluster.list(self.kind, scope)).items
        click.echo(self._table(items) if items else NOTHING_FOUND, nl=False)

    def get(self, values: Values) -> None:
        """Print the table of one."""
        name = named(values, f"name is mandatory to get the particular {self.noun} details")
        found = ask(values, lambda cluster: cluster.get(self.kind, name, values["namespace"]))
        click.echo(self._table([found]), nl=False)

    def delete(self, values: Values) -> None:
        """Delete those of a file, or one by name."""
        if values["file"]:
            self._each(
                values, "delete", "Deleted", lambda cluster, body, ns: cluster.delete(self.kind, _name(body), ns)
            )
            return
        name, namespace = named(values, f"{self.noun} name must be specified"), values["namespace"]
        ask(values, lambda cluster: cluster.delete(self.kind, name, namespace))
        click.echo(f"Deleted {self.kind.name}: {namespace}/{name}")

    def describe(self, values: Values) -> None:
        """Print whole objects, without ``managedFields``."""
        name, namespace = values["name"], values["namespace"]

        async def work(cluster: Cluster) -> Sequence[Json]:
            if name:
                return [await cluster.get(self.kind, name, namespace)]
            return (await cluster.list(self.kind, namespace)).items

        write = _WRITERS.get(values["format"], lambda _: f"Unsupported format: {values['format']}")
        click.echo("\n\n".join(write(self._typed(item)) for item in ask(values, work)), nl=False)

    def _each(
        self, values: Values, verb: str, done: str, act: Callable[[Cluster, Json, str], Awaitable[object]]
    ) -> None:
        text = read_file(values["file"])

        async def work(cluster: Cluster) -> None:
            for document in text.split("---"):
                if not document.strip():
                    continue
                body = self._read(document)
                try:
                    await act(cluster, body, body["metadata"]["namespace"])
                except ApiError as error:
                    click.echo(f"Failed to {verb} {self.kind.name}: {error}")
                else:
                    click.echo(f"{done} {self.kind.name}: {body['metadata']['namespace']}/{_name(body)}")

        ask(values, work)

    def _read(self, document: str) -> Json:
        """Return an object of the kind, in namespace ``default`` unless it says another."""
        try:
            body = yamltext.load(document)
        except yamltext.InvalidYaml as error:
            raise Failed(f"error converting YAML to JSON: yaml: {one_line(error)}") from error
        if not isinstance(body, dict) or not isinstance(body.get("metadata") or {}, dict):
            raise Failed(f"error unmarshaling JSON: no object of kind {self.kind.name}")
        meta = body.get("metadata") or {}
        body = {"apiVersion": self.kind.api_version, "kind": self.kind.name, **body}
        return {**body, "metadata": {**meta, "namespace": meta.get("namespace") or "default"}}

    def _table(self, items: Sequence[Json]) -> str:
        rows = [[item["metadata"]["name"], item["metadata"]["namespace"]] for item in items]
        if self.kind is catalog.JOBTEMPLATE:
            return fitted(("Name", "Namespace"), rows, 4)
        for row, item in zip(rows, items, strict=True):
            phase = ((item.get("status") or {}).get("state") or {}).get("phase", "")
            row += [phase, age(item["metadata"].get("creationTimestamp"))]
        return fitted(("Name", "Namespace", "Phase", "Age"), rows, 4)

    def _typed(self, item: Json) -> Json:
        """Return an object as client-go encodes it: members in its order, with the empty ones that it always writes."""
        known = {member: item["metadata"][member] for member in _META if member in item["metadata"]}
        others = {member: value for member, value in item["metadata"].items() if member != "managedFields"}
        head: Json = {"kind": self.kind.name, "apiVersion": self.kind.api_version, "metadata": {**known, **others}}
        spec, status = dict(item.get("spec") or {}), dict(item.get("status") or {})
        if spec.get("tasks"):
            spec["tasks"] = [{**task, "template": _template(task.get("template") or {})} for task in spec["tasks"]]
        if self.kind is catalog.JOBFLOW:
            status = {"state": {}, **status}
        if status.get("jobStatusList"):
            status["jobStatusList"] = [_timed(job) for job in status["jobStatusList"]]
        return {**head, "spec": spec, "status": status}


def _timed(job: Json) -> Json:
    histories = [{**_NO_TIMES, **history} for history in job.get("runningHistories") or ()]
    return {**_NO_TIMES, **job, **({"runningHistories": histories} if histories else {})}


def _template(template: Json) -> Json:
    spec = template.get("spec") or {}
    containers = [{**container, "resources": container.get("resources") or {}} for container in spec["containers"]]
    return {"metadata": {}, **template, "spec": {**spec, "containers": containers}}


def _name(body: Json) -> str:
    return str(body["metadata"].get("name") or "")


JOBFLOWS = Flows(catalog.JOBFLOW, "jobflow")
JOBTEMPLATES = Flows(catalog.JOBTEMPLATE, "job template")
