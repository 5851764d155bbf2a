"""Reads the text under one key of a ConfigMap: a bounded YAML mapping, whatever else is written there."""

from __future__ import annotations

from typing import Any, Final

from strato.api import yamltext
from strato.errors import InvalidInput, Problem, called, one_line

MAX_CHARACTERS: Final = 1 << 18
MAX_VALUES: Final = 10_000


def read_mapping(text: str, key: str) -> dict[str, Any]:
    """Return what a text says; an empty one says nothing.

    Args:
        text: YAML.
        key: Names it in the error.

    Raises:
        InvalidInput: It is no YAML, no mapping, or over a limit.
    """
    if len(text) > MAX_CHARACTERS:
        raise InvalidInput(key, [Problem("", f"has {len(text)} characters; write at most {MAX_CHARACTERS}")])
    try:
        document = yamltext.load(text, max_values=MAX_VALUES)
    except yamltext.InvalidYaml as error:
        raise InvalidInput(key, [Problem("", one_line(error))]) from error
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise InvalidInput(key, [Problem("", f"must be a mapping, not {called(document)}")])
    return document
