"""Read a Job from a file (spec volcano-cli A2.1)."""

from __future__ import annotations

import shlex
from pathlib import Path

from strato.api import catalog, yamltext
from strato.cli.inputs import read_text
from strato.client.cluster import Json
from strato.errors import UsageError, called, one_line


def words_of(command: str) -> list[str]:
    """Split a command as a shell does.

    Raises:
        UsageError: A quote is open.
    """
    try:
        return shlex.split(command)
    except ValueError as error:
        raise UsageError(f"--command {command!r}: {error}; quote it as for a shell") from error


def job_from_file(filename: str) -> Json:
    """Read one YAML document holding a Job; ``-`` is standard input.

    Raises:
        UsageError: The file cannot be read or holds something else.
    """
    if filename != "-" and ".yaml" not in filename and ".yml" not in filename:
        raise UsageError(f"{filename}: only support yaml file")
    try:
        body = yamltext.load(read_text(Path(filename)))
    except yamltext.InvalidYaml as error:
        raise UsageError(f"{filename}: not YAML: {one_line(error)}") from error
    if not isinstance(body, dict) or body.get("kind") != "Job":
        found = repr(body["kind"]) if isinstance(body, dict) and body.get("kind") else called(body)
        raise UsageError(f"{filename}: holds {found}, expected one document of kind Job ({catalog.VCJOB.api_version})")
    return body
