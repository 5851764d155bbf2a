"""Volumes: the files for a pod's ConfigMaps, Secrets and downward API, and the paths of volumes on the machine.

`payload` decides the files of a volume (pure); `atomicwriter` writes them. `mounts_of` returns the mounts of a
container.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from strato.api.core import (
    Container,
    DownwardAPIFile,
    DownwardAPISource,
    HostPathSource,
    KeyToPath,
    Pod,
    ProjectedSource,
    Volume,
    VolumeMount,
)
from strato.node import beneath
from strato.node.sandbox.atomicwriter import DEFAULT_MODE, File
from strato.node.sandbox.environment import (
    ConfigProblem,
    DownwardContext,
    References,
    expand,
    field_value,
    references_in,
    resource_value,
)


@dataclass(frozen=True, slots=True)
class Mount:
    """A path of the machine shown in a container."""

    source: str
    target: str
    read_only: bool = False
    sub_path: str = ""
    """Path below the source to show, which the pod chooses. It is resolved only when it is mounted, as the pod could
    replace parts of it after an earlier check."""
    programs: bool = False
    """Whether the source has programs of the machine, so that its owners need not be mapped."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """All inputs for a pod's volumes."""

    pod: Pod
    references: References
    place: DownwardContext
    tokens: Mapping[tuple[str, int], str] = field(default_factory=dict)
    """Service account tokens by (audience, expiration seconds)."""


def payload(volume: Volume, inputs: Inputs) -> dict[str, File] | None:
    """Return the files of a configMap, secret, downwardAPI or projected volume, None for other kinds.

    Raises:
        ConfigProblem: An object or key that is not optional is missing.
    """
    if volume.config_map is not None:
        source = volume.config_map
        data = inputs.references.config_data(source.name, optional=source.optional)
        return _keys(data, source.items, source.default_mode, optional=source.optional)
    if volume.secret is not None:
        secret = volume.secret
        data = inputs.references.secret_data(secret.secret_name, optional=secret.optional)
        return _keys(data, secret.items, secret.default_mode, optional=secret.optional)
    if volume.downward_api is not None:
        return _downward(volume.downward_api, inputs, volume.downward_api.default_mode)
    if volume.projected is not None:
        return _projected(volume.projected, inputs)
    return None


def _keys(
    data: Mapping[str, bytes] | None, items: Sequence[KeyToPath], mode: int | None, *, optional: bool
) -> dict[str, File]:
    usual = DEFAULT_MODE if mode is None else mode
    if data is None:
        return {}
    if not items:
        return {key: File(content, usual) for key, content in data.items()}
    files = {}
    for item in items:
        if item.key in data:
            files[item.path] = File(data[item.key], usual if item.mode is None else item.mode)
        elif not optional:
            raise ConfigProblem(f"references non-existent config key: {item.key}")
    return files


def _downward(source: DownwardAPISource, inputs: Inputs, mode: int | None) -> dict[str, File]:
    usual = DEFAULT_MODE if mode is None else mode
    return {
        item.path: File(_downward_text(item, inputs).encode(), usual if item.mode is None else item.mode)
        for item in source.items
    }


def _downward_text(item: DownwardAPIFile, inputs: Inputs) -> str:
    if item.field_ref is not None:
        return field_value(inputs.pod, item.field_ref, inputs.place)
    if item.resource_field_ref is not None:
        first = inputs.pod.spec.containers[0]
        return resource_value(inputs.pod, first, item.resource_field_ref, inputs.place)
    return ""


def _projected(source: ProjectedSource, inputs: Inputs) -> dict[str, File]:
    files: dict[str, File] = {}
    mode = source.default_mode
    for part in source.sources:
        if part.config_map is not None:
            config = part.config_map
            data = inputs.references.config_data(config.name, optional=config.optional)
            files |= _keys(data, config.items, mode, optional=config.optional)
        if part.secret is not None:
            data = inputs.references.secret_data(part.secret.name, optional=part.secret.optional)
            files |= _keys(data, part.secret.items, mode, optional=part.secret.optional)
        if part.downward_api is not None:
            files |= _downward(part.downward_api, inputs, mode)
        if part.service_account_token is not None:
            token = part.service_account_token
            text = inputs.tokens.get((token.audience, token.expiration_seconds))
            if text is not None:
                files[token.path] = File(text.encode(), DEFAULT_MODE if mode is None else mode)
    return files


def referenced_objects(pod: Pod) -> tuple[set[str], set[str]]:
    """Return the names of the ConfigMaps and of the Secrets a pod needs before it can start."""
    config_maps: set[str] = set()
    secrets: set[str] = set()
    for volume in pod.spec.volumes:
        parts = volume.projected.sources if volume.projected is not None else ()
        config_maps |= {s.name for s in (volume.config_map, *(p.config_map for p in parts)) if s is not None}
        secrets |= {p.secret.name for p in parts if p.secret is not None}
        if volume.secret is not None:
            secrets.add(volume.secret.secret_name)
    for container in pod.spec.all_containers:
        for source in container.env_from:
            if source.config_map_ref is not None:
                config_maps.add(source.config_map_ref.name)
            if source.secret_ref is not None:
                secrets.add(source.secret_ref.name)
        for variable in container.env:
            if variable.value_from is not None and variable.value_from.config_map_key_ref is not None:
                config_maps.add(variable.value_from.config_map_key_ref.name)
            if variable.value_from is not None and variable.value_from.secret_key_ref is not None:
                secrets.add(variable.value_from.secret_key_ref.name)
    return config_maps, secrets


_HOST_PATH_TYPES: Mapping[str, Callable[[int], bool]] = {
    "Directory": stat.S_ISDIR,
    "File": stat.S_ISREG,
    "Socket": stat.S_ISSOCK,
    "CharDevice": stat.S_ISCHR,
    "BlockDevice": stat.S_ISBLK,
}


def check_host_path(source: HostPathSource) -> str:
    """Return the path of a hostPath volume after making or checking it as its type says.

    Raises:
        ConfigProblem: The path is not of the type.
    """
    path, kind = source.path, source.type
    if not path.startswith("/") or ".." in path.split("/"):
        raise ConfigProblem(f"hostPath {path!r} is refused: it must be absolute and must not contain '..'")
    if kind == "DirectoryOrCreate":
        os.makedirs(path, mode=0o755, exist_ok=True)
    elif kind == "FileOrCreate":
        with contextlib.suppress(FileExistsError):
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644))
    is_right = _HOST_PATH_TYPES.get(kind.removesuffix("OrCreate"))
    try:
        mode = os.stat(path).st_mode
    except OSError as err:
        raise ConfigProblem(f"hostPath type check failed: {path} is not {kind or 'there'}") from err
    if is_right is not None and not is_right(mode):
        raise ConfigProblem(f"hostPath type check failed: {path} is not {kind}")
    return path


def make_empty_dir(directory: str, group: int | None = None) -> str:
    """Make the directory of an emptyDir volume, writable by any user of the pod's containers.

    Args:
        directory: Path of the directory; its parent belongs to the node.
        group: Group of the directory (``fsGroup``), and of files that are made in it.
    """
    os.makedirs(directory, exist_ok=True)
    with beneath.opened(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW) as descriptor:
        if group is not None:
            os.fchown(descriptor, -1, group)
        os.fchmod(descriptor, 0o777 if group is None else 0o777 | stat.S_ISGID)
    return directory


def own_directory(path: str) -> str:
    """Make a directory that only the node can read, in a place where any user may create one; return its path.

    Raises:
        ConfigProblem: Another user has created it first.
    """
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o700)
    with contextlib.suppress(OSError), beneath.opened(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW) as directory:
        if os.fstat(directory).st_uid == os.geteuid():
            os.fchmod(directory, 0o700)
            return path
    raise ConfigProblem(f"{path} is not this node's own directory: somebody else has made it; remove it")


def mounts_of(
    container: Container, locations: Mapping[str, str], variables: Mapping[str, str], payloads: frozenset[str]
) -> list[Mount]:
    """Return the mounts of a container's ``volumeMounts``.

    Args:
        container: The container.
        locations: Volume name → directory or file of the machine.
        variables: Variables for ``subPathExpr``.
        payloads: Names of the volumes whose files the node writes, which are always read-only.

    Raises:
        ConfigProblem: A sub-path leads out of its volume, or has a variable that is not there.
    """
    return [
        Mount(
            locations[mount.name],
            "/" + mount.mount_path.strip("/"),
            mount.read_only or mount.name in payloads,
            _sub_path(mount, variables),
        )
        for mount in container.volume_mounts
    ]


def _sub_path(mount: VolumeMount, variables: Mapping[str, str]) -> str:
    path = mount.sub_path
    if mount.sub_path_expr:
        unknown = [name for name in references_in(mount.sub_path_expr) if name not in variables]
        if unknown:
            raise ConfigProblem(
                f"volume {mount.name}: subPathExpr {mount.sub_path_expr!r}: missing value for {unknown}"
            )
        path = expand(mount.sub_path_expr, variables)
    if path.startswith("/"):
        raise ConfigProblem(f"volume {mount.name}: error SubPath `{path}` must not be an absolute path")
    if ".." in path.split("/"):
        raise ConfigProblem(f"volume {mount.name}: unable to provision SubPath `{path}`: must not contain '..'")
    return path


def make_sub_path(mount: Mount) -> None:
    """Make the directory of a mount's sub-path below the volume, if it does not exist.

    Raises:
        ConfigProblem: The sub-path leads out of the volume, for instance through a link that a pod has made, or it is
            missing in a volume that is read-only.
    """
    try:
        with contextlib.ExitStack() as held:
            volume = held.enter_context(beneath.opened(mount.source, os.O_PATH | os.O_DIRECTORY))
            try:
                os.close(beneath.open_at(volume, mount.sub_path))
            except FileNotFoundError:
                if mount.read_only:
                    raise
                mode = stat.S_IMODE(os.fstat(volume).st_mode)
                made = beneath.make_directories(volume, mount.sub_path, mode & 0o777)
                held.callback(os.close, made)
                os.chmod(f"/proc/self/fd/{made}", mode)  # the mode of the volume, which the umask may have reduced
    except OSError as err:
        why = "leads out of the volume" if err.errno == errno.EXDEV else err.strerror
        raise ConfigProblem(f"failed to prepare subPath {mount.sub_path!r} for {mount.target}: {why}") from err
