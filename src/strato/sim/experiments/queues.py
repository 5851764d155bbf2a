"""`read_queues`: reads the queues of a simulation from a file of manifests, a list of them, or specs by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from strato.api import catalog, yamltext
from strato.errors import InvalidInput, Problem, UsageError, called, one_line

_MOST_BYTES: Final = 1 << 20


def text_of(path: Path) -> str:
    """Return the text of a small file.

    Raises:
        UsageError: The file cannot be read, or is too large.
    """
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
        if len(data) > _MOST_BYTES:
            raise UsageError(f"{path} is longer than {_MOST_BYTES} bytes, which no configuration needs")
        return data.decode()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text (byte {error.start})") from error
    except ValueError as error:  # its name has a NUL
        raise UsageError(f"{str(path)!r} cannot be read: {error}") from error


def read_queues(given: Any, where: str, folder: Path) -> tuple[dict[str, Any], ...]:
    """Return manifests of queues.

    Args:
        given: The name of a file, a list of manifests, specs by name, or None.
        where: The place of ``given``, for errors.
        folder: The folder of the file.

    Raises:
        UsageError: The file cannot be read.
        InvalidInput: The manifests have problems; all are listed.
    """
    if given is None:
        return ()
    if isinstance(given, str):
        path = folder / given
        try:
            documents = [one for one in yamltext.load_all(text_of(path)) if one is not None]
        except yamltext.InvalidYaml as error:
            raise InvalidInput("queues", [Problem(str(path), f"is not YAML: {one_line(error)}")]) from error
        return _checked(documents, lambda number: f"{path}: document {number + 1}")
    if isinstance(given, Mapping):
        base = {"apiVersion": catalog.QUEUE.api_version, "kind": catalog.QUEUE.name}
        made = [{**base, "metadata": {"name": str(name)}, "spec": spec or {}} for name, spec in given.items()]
        names = list(given)
        return _checked(made, lambda number: f"{where}.{names[number]}")
    if isinstance(given, list):
        return _checked(given, lambda number: f"{where}[{number}]")
    raise InvalidInput("queues", [Problem(where, f"must be a file, a list or a mapping, not {called(given)}")])


def _checked(documents: Sequence[Any], place: Callable[[int], str]) -> tuple[dict[str, Any], ...]:
    problems = []
    names: list[str] = []
    for number, document in enumerate(documents):
        if not isinstance(document, dict) or document.get("kind") != catalog.QUEUE.name:
            problems.append(
                Problem(
                    place(number),
                    "is no Queue: write manifests of kind Queue, or specs by name, for example a: {weight: 3}",
                )
            )
            continue
        metadata = document.get("metadata")
        if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
            problems.append(Problem(f"{place(number)}: metadata.name", "is missing"))
            continue
        names.append(metadata["name"])
        try:
            msgspec.convert(document, catalog.QUEUE.view)
        except msgspec.ValidationError as error:
            problems.append(Problem(place(number), str(error)))
    repeated = sorted({name for name in names if names.count(name) > 1})
    problems += [Problem(place(names.index(name)), f"there are two queues {name!r}") for name in repeated]
    if problems:
        raise InvalidInput("queues", problems)
    return tuple(documents)
