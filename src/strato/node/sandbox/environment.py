"""A container's command line and environment, as the kubelet computes them. Pure."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

from strato.api import quantity
from strato.api.core import (
    ConfigMap,
    Container,
    EnvFromSource,
    EnvVarSource,
    ObjectFieldSelector,
    Pod,
    ResourceFieldSelector,
    Secret,
)
from strato.api.shapes import EMPTY
from strato.errors import StratoError

_REFERENCE = re.compile(r"\$\$|\$\(([^)]*)\)")
_TEXT_CHARACTERS, _ALL_CHARACTERS = 128 << 10, 2 << 20
"""Longest argument or variable, and longest sum of all, with which Linux starts a program."""
_KEYED_FIELD = re.compile(r"metadata\.(annotations|labels)\['(.+)'\]")


class ConfigProblem(StratoError):
    """A reference in the pod's spec cannot be resolved now; the container waits with CreateContainerConfigError."""


@dataclass(frozen=True, slots=True)
class References:
    """The ConfigMaps and Secrets a pod names, as read before it starts; None where there is no such object."""

    config_maps: Mapping[str, ConfigMap | None] = field(default_factory=dict)
    secrets: Mapping[str, Secret | None] = field(default_factory=dict)

    def config_data(self, name: str, *, optional: bool, text_only: bool = False) -> dict[str, bytes] | None:
        """Return a ConfigMap's keys and values; ``text_only`` leaves out binary data, for environment variables.

        Raises:
            ConfigProblem: It does not exist and is not optional.
        """
        found = self.config_maps.get(name)
        if found is None:
            if optional:
                return None
            raise ConfigProblem(f'configmap "{name}" not found')
        data = {key: value.encode() for key, value in found.data.items()}
        return data if text_only else data | _decoded(found.binary_data, f'configmap "{name}"')

    def secret_data(self, name: str, *, optional: bool) -> dict[str, bytes] | None:
        """Return a Secret's keys and values, decoded.

        Raises:
            ConfigProblem: It does not exist and is not optional.
        """
        found = self.secrets.get(name)
        if found is None:
            if optional:
                return None
            raise ConfigProblem(f'secret "{name}" not found')
        return _decoded(found.data, f'secret "{name}"')


def _decoded(data: Mapping[str, str], owner: str) -> dict[str, bytes]:
    try:
        return {key: base64.b64decode(value) for key, value in data.items()}
    except ValueError as err:
        raise ConfigProblem(f"{owner} has data that is no base64: {err}") from err


@dataclass(frozen=True, slots=True)
class DownwardContext:
    """Values that the node has decided for a pod, for the downward API."""

    node_name: str
    host_ip: str
    pod_ip: str
    allocatable: Mapping[str, str] = field(default_factory=dict)
    """The node's allocatable amounts, which replace limits that are not set."""


def expand(text: str, values: Mapping[str, str]) -> str:
    """Replace ``$(NAME)`` by the variable's value; an unknown name stays as it is, ``$$`` is a dollar.

    Raises:
        ConfigProblem: The result is longer than an argument of a program can be.
    """
    length = 0

    def replacement(match: re.Match[str]) -> str:
        nonlocal length
        if match[0] == "$$":
            return "$"
        found = values.get(match[1], match[0])
        length += len(found)
        if length > _TEXT_CHARACTERS:
            raise ConfigProblem(f"what {text[:80]!r} refers to is longer than a program may be given")
        return found

    # after the last ")" there is no reference; searching only before it keeps the time linear
    closed = text.rfind(")") + 1
    return _REFERENCE.sub(replacement, text[:closed]) + text[closed:].replace("$$", "$")


def references_in(text: str) -> list[str]:
    """Return the names of the variables a text refers to."""
    closed = text.rfind(")") + 1
    return [match[1] for match in _REFERENCE.finditer(text[:closed]) if match[1] is not None]


def environment(
    pod: Pod,
    container: Container,
    references: References,
    downward: DownwardContext,
    services: Mapping[str, str] = EMPTY,
) -> dict[str, str]:
    """Return the variables of the container's ``envFrom`` and ``env``, in order; they override those of services.

    Raises:
        ConfigProblem: An object or key that is not optional is missing.
    """
    values: dict[str, str] = dict(services)
    for source in container.env_from:
        values |= _from_object(source, references)
    size = sum(map(len, values.values()))
    for variable in container.env:
        if variable.value_from is None:
            text: str | None = expand(variable.value, values)
        else:
            text = _from_source(variable.value_from, pod, container, references, downward)
        if text is not None:
            values[variable.name] = text
            size += len(text)
        if size > _ALL_CHARACTERS:
            raise ConfigProblem(f"the variables up to {variable.name!r} are longer than a program may be given")
    return values


def _from_object(source: EnvFromSource, references: References) -> dict[str, str]:
    data: dict[str, bytes] | None = None
    if source.config_map_ref is not None:
        name, optional = source.config_map_ref.name, source.config_map_ref.optional
        data = references.config_data(name, optional=optional, text_only=True)
    elif source.secret_ref is not None:
        data = references.secret_data(source.secret_ref.name, optional=source.secret_ref.optional)
    return {source.prefix + key: value.decode(errors="replace") for key, value in sorted((data or {}).items())}


def _from_source(
    source: EnvVarSource, pod: Pod, container: Container, references: References, downward: DownwardContext
) -> str | None:
    if source.field_ref is not None:
        return field_value(pod, source.field_ref, downward)
    if source.resource_field_ref is not None:
        return resource_value(pod, container, source.resource_field_ref, downward)
    for kind, selector, read in (
        ("ConfigMap", source.config_map_key_ref, partial(references.config_data, text_only=True)),
        ("Secret", source.secret_key_ref, references.secret_data),
    ):
        if selector is None:
            continue
        data = read(selector.name, optional=selector.optional)
        if data is not None and selector.key in data:
            return data[selector.key].decode(errors="replace")
        if not selector.optional:
            where = f"{pod.metadata.namespace}/{selector.name}"
            raise ConfigProblem(f"couldn't find key {selector.key} in {kind} {where}")
    return None


def field_value(pod: Pod, selector: ObjectFieldSelector, downward: DownwardContext) -> str:
    """Return the value of a field of the pod for the downward API.

    Raises:
        ConfigProblem: The downward API has no such field.
    """
    path = selector.field_path
    simple = {
        "metadata.name": pod.metadata.name,
        "metadata.namespace": pod.metadata.namespace,
        "metadata.uid": pod.metadata.uid,
        "spec.nodeName": downward.node_name,
        "spec.serviceAccountName": pod.spec.service_account_name,
        "status.hostIP": downward.host_ip,
        "status.hostIPs": downward.host_ip,
        "status.podIP": downward.pod_ip,
        "status.podIPs": downward.pod_ip,
    }
    if path in simple:
        return simple[path]
    maps = {"labels": pod.metadata.labels or {}, "annotations": pod.metadata.annotations or {}}
    keyed = _KEYED_FIELD.fullmatch(path)
    if keyed is not None:
        return maps[keyed[1]].get(keyed[2], "")
    if path in ("metadata.labels", "metadata.annotations"):
        entries = sorted(maps[path.rpartition(".")[2]].items())
        return "\n".join(f"{key}={_quoted(value)}" for key, value in entries)
    raise ConfigProblem(f"unsupported fieldPath: {path}")


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{escaped}"'


def resource_value(pod: Pod, container: Container, selector: ResourceFieldSelector, downward: DownwardContext) -> str:
    """Return a container's request or limit in units of the divisor, rounded up.

    Raises:
        ConfigProblem: No such container or resource.
    """
    if selector.container_name:
        everyone = (*pod.spec.containers, *pod.spec.init_containers)
        named = [c for c in everyone if c.name == selector.container_name]
        if not named:
            raise ConfigProblem(f"container {selector.container_name} not found")
        container = named[0]
    kind, _, resource = selector.resource.partition(".")
    lists = {"limits": container.resources.limits, "requests": container.resources.requests}
    if kind not in lists or not resource:
        raise ConfigProblem(f"unsupported container resource : {selector.resource}")
    amount = lists[kind].get(resource)
    if amount is None:
        amount = downward.allocatable.get(resource, "0") if kind == "limits" else "0"
    divisor = selector.divisor if str(selector.divisor) != "0" else "1"
    return str(-(-quantity.milli(amount) // quantity.milli(divisor)))


def command_line(
    container: Container,
    variables: Mapping[str, str],
    image_entrypoint: tuple[str, ...],
    image_command: tuple[str, ...],
) -> list[str]:
    """Return the argument vector: ``command`` and ``args``, which override the image's own, with variables expanded."""
    command = container.command or image_entrypoint
    arguments = container.args or (() if container.command else image_command)
    words: list[str] = []
    size = 0
    for word in (*command, *arguments):
        words.append(expand(word, variables))
        size += len(words[-1])
        if size > _ALL_CHARACTERS:
            raise ConfigProblem("command and arguments are longer than a program may be given")
    return words
