"""Make a Job from flags or read one from a file (spec volcano-cli A2.1)."""

from __future__ import annotations

import shlex
from pathlib import Path

from strato.api import catalog, yamltext
from strato.cli.inputs import read_text
from strato.cli.verbs import VerbFailed
from strato.client.cluster import Json
from strato.errors import one_line


def parse_resources(text: str, flag: str) -> dict[str, str]:
    """Read ``name=quantity`` pairs joined by commas; empty text means none.

    Raises:
        VerbFailed: A part is no pair.
    """
    resources: dict[str, str] = {}
    for part in text.split(",") if text else []:
        name, separator, quantity = part.partition("=")
        if not separator or not name or not quantity or "=" in quantity:
            raise VerbFailed(
                f"{flag} {text!r}: {part!r} is not name=quantity; write for example cpu=1000m,memory=100Mi"
            )
        resources[name.strip()] = quantity.strip()
    return resources


def job_from_flags(
    *,
    name: str,
    namespace: str,
    image: str,
    min_available: int,
    replicas: int,
    requests: str,
    limits: str,
    scheduler: str,
    command: str = "",
) -> Json:
    """Return a one-task Job. The task stays unnamed: admission calls it ``default0``."""
    if not name:
        raise VerbFailed("job name cannot be left blank; give --name or --filename")
    container: Json = {
        "name": name,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "resources": {
            "requests": parse_resources(requests, "--requests"),
            "limits": parse_resources(limits, "--limits"),
        },
    }
    if command:
        container["command"] = _words(command)
    template = {
        "metadata": {"name": name, "labels": {"job.volcano.sh": name}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    return {
        "apiVersion": catalog.VCJOB.api_version,
        "kind": "Job",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "minAvailable": min_available,
            "schedulerName": scheduler,
            "tasks": [{"replicas": replicas, "template": template}],
        },
    }


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError as error:
        raise VerbFailed(f"--command {command!r}: {error}; quote it as for a shell") from error


def job_from_file(filename: str) -> Json:
    """Read one YAML document holding a Job.

    Raises:
        VerbFailed: The file cannot be read or holds something else.
    """
    if ".yaml" not in filename and ".yml" not in filename:
        raise VerbFailed(f"{filename}: only support yaml file")
    try:
        body = yamltext.load(read_text(Path(filename)))
    except yamltext.InvalidYaml as error:
        raise VerbFailed(f"{filename}: not YAML: {one_line(error)}") from error
    if not isinstance(body, dict) or body.get("kind") != "Job":
        found = body.get("kind") if isinstance(body, dict) else type(body).__name__
        raise VerbFailed(
            f"{filename}: holds {found!r}, expected one document of kind Job ({catalog.VCJOB.api_version})"
        )
    return body
