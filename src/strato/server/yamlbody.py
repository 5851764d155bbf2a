"""YAML request bodies as JSON values: no dates, no keys but text, no bombs made of aliases."""

from __future__ import annotations

import math
from typing import Any

import yaml

_MAX_VALUES = 2_000_000
"""Values a document may unfold to; 3 MiB without aliases cannot hold as many."""

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the C one is ten times faster, where it was built


class _JsonLoader(_Loader):  # type: ignore[misc]  # the base is chosen at run time
    """Reads timestamps as the text they are."""


_JsonLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in _Loader.yaml_implicit_resolvers.items()
}


def read_yaml(body: bytes) -> Any:
    """Decode one YAML document.

    Raises:
        yaml.YAMLError: It is not YAML, or several documents.
        ValueError: It holds what JSON cannot, or aliases that unfold to too much.
    """
    value = yaml.load(body, Loader=_JsonLoader)
    return _Unfolding().json(value)


class _Unfolding:
    """Copies decoded YAML into JSON values, counting them."""

    def __init__(self) -> None:
        self._left = _MAX_VALUES

    def json(self, value: Any) -> Any:
        self._left -= 1
        if self._left < 0:
            raise ValueError("document contains excessive aliasing")
        match value:
            case dict():
                return {self._key(key): self.json(inner) for key, inner in value.items()}
            case list():
                return [self.json(inner) for inner in value]
            case float() if not math.isfinite(value):
                raise ValueError(f"{value} is not a JSON number")
            case None | bool() | int() | float() | str():
                return value
        raise ValueError(f"a value of type {type(value).__name__} has no place in JSON")

    @staticmethod
    def _key(key: Any) -> str:
        match key:
            case str():
                return key
            case bool():
                return "true" if key else "false"
            case int() | float():
                return str(key)
        raise ValueError(f"a key must be text, not {key!r}")
