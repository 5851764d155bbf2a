"""Read the text under one key of a ConfigMap as a YAML mapping, with bounds against hostile content."""

from __future__ import annotations

from typing import Any, Final

from strato.api import yamltext
from strato.errors import InvalidInput, Problem, called, one_line

MAX_CHARACTERS: Final = 1 << 18
MAX_VALUES: Final = 10_000


def read_mapping(text: str, key: str) -> dict[str, Any]:
    """Return the mapping in a YAML text; empty for an empty text.

    Args:
        text: YAML.
        key: Key of the ConfigMap, for the error.

    Raises:
        InvalidInput: The text is no YAML, no mapping, or exceeds a limit.
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
