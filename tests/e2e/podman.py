"""Podman as ``docker``, with a store, a base image and a registry of its own: it leaves nothing on the machine.

It runs in mounts of its own, where ``registry.example.com`` of the pages is a registry on loopback. The base image is
the Python that runs the tests, at the place where the official image has one: no registry of images is needed.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.worlds import STRATO, World
from tests.node.registries import debian_registry

REGISTRY = "registry.example.com"
NEEDS = ("podman", "runc", "unshare", "docker-registry")
_CONTAINERS = """\
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]
netns = "host"
[engine]
cgroup_manager = "cgroupfs"
events_logger = "none"
runtime = "runc"
"""
_BASE = """\
FROM localhost/seed
COPY . /
RUN {python} -m venv /usr/local && {python} -c "import os; os.chmod('/tmp', 0o1777)"
ENV PATH=/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin
"""
_LIBRARIES = ("libm", "libdl", "librt", "libutil", "libpthread", "libgcc_s", "libstdc++", "libz")
"""What wheels may count on in every system (the policies of manylinux), as the official image has it."""
_REACHES_PACKAGES = ("/etc/pip.conf", "/etc/ssl/certs/ca-certificates.crt")
"""How this machine reaches its package registry, where it says so."""


class Podman:
    """The program ``docker`` in ``programs``."""

    def __init__(self, directory: Path, registry_address: str) -> None:
        self.directory = directory
        self.programs = directory / "programs"
        settings = {
            "CONTAINERS_CONF": _CONTAINERS,
            "CONTAINERS_STORAGE_CONF": f'[storage]\ndriver = "overlay"\ngraphroot = "{directory}/images"\n'
            f'runroot = "{directory}/state"\n',
            "CONTAINERS_REGISTRIES_CONF": 'unqualified-search-registries = ["docker.io"]\n'
            f'[[registry]]\nlocation = "{REGISTRY}"\ninsecure = true\n',
        }
        self.programs.mkdir(parents=True)
        lines = ["#!/bin/sh", "export BUILDAH_ISOLATION=chroot"]
        for name, text in settings.items():
            (directory / name).write_text(text)
            lines.append(f"export {name}={shlex.quote(str(directory / name))}")
        hosts = directory / "hosts"
        hosts.write_text(f"{Path('/etc/hosts').read_text()}\n{registry_address} {REGISTRY}\n")
        inside = f'mount --bind {shlex.quote(str(hosts))} /etc/hosts && exec podman "$@"'
        lines.append(f'exec unshare --mount sh -c {shlex.quote(inside)} docker "$@"\n')
        self.docker = self.programs / "docker"
        self.docker.write_text("\n".join(lines))
        self.docker.chmod(0o755)

    def run(self, *args: str) -> str:
        """Run docker and return what it printed."""
        done = subprocess.run([str(self.docker), *args], text=True, capture_output=True, timeout=600, check=False)
        assert done.returncode == 0, f"docker {' '.join(args)}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def make_base(self, name: str) -> None:
        """Make the image ``name``: this machine's Python as ``/usr/local/bin/python``, with pip."""
        seed, archive, files = self.directory / "seed", self.directory / "seed.tar", self.directory / "base"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(seed)], check=True)
        build = ["image", "build", "seed", str(seed), "--python", "--at", str(seed), "--output", str(archive)]
        subprocess.run([*STRATO, "--home", str(self.directory), *build], check=True, capture_output=True)
        self.run("load", "--quiet", "--input", str(archive))
        for path in filter(os.path.exists, [*_REACHES_PACKAGES, *_paths_of_libraries()]):
            (files / path[1:]).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, files / path[1:])
        (self.directory / "Base").write_text(_BASE.format(python=seed / "bin" / "python"))
        self.run("build", "--quiet", "--file", str(self.directory / "Base"), "--tag", name, str(files))


def _paths_of_libraries() -> Iterator[str]:
    listed = subprocess.run(["/sbin/ldconfig", "-p"], text=True, capture_output=True, check=True).stdout
    for line in listed.splitlines():
        name, _, path = line.strip().partition(" => ")
        if name.partition(".so.")[0] in _LIBRARIES and "x32" not in name and "libc6)" not in name:
            yield os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))


@contextlib.contextmanager
def podman(directory: Path) -> Iterator[Podman]:
    """Serve a registry and yield what builds, pushes to it and runs; skip where that is not to be had."""
    absent = [name for name in NEEDS if shutil.which(name) is None]
    if os.geteuid() != 0 or absent:
        pytest.skip(f"images are built as root with podman: apt-get install {' '.join(absent)}")
    with debian_registry(directory / "registry", address="127.77.0.1:80") as address:
        yield Podman(directory, address.partition(":")[0])


def as_deployed(world: World, name: str, directory: Path, kubeconfig: Path) -> list[str]:
    """Return the words after ``docker`` that run a Deployment's container as a kubelet would, on the machine's network.

    Args:
        world: Where it is installed, in namespace volcano-system.
        name: Of the Deployment.
        directory: Where what is mounted is kept.
        kubeconfig: In place of the service account.
    """
    pod = world.get("deployment", name, "-n", "volcano-system")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    confined = container["securityContext"]
    assert (confined["readOnlyRootFilesystem"], confined["allowPrivilegeEscalation"]) == (True, False)
    assert confined["capabilities"] == {"drop": ["ALL"]}
    words = ["run", "--rm", "--network", "host", "--user", str(pod["securityContext"]["runAsUser"])]
    words += ["--read-only", "--read-only-tmpfs=false", "--cap-drop", "all", "--security-opt", "no-new-privileges"]
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    for mount in container["volumeMounts"]:
        volume = volumes[mount["name"]]
        files = directory / name / volume["name"]
        files.mkdir(parents=True)
        if "emptyDir" in volume:
            files.chmod(0o777)
            words += ["--volume", f"{files}:{mount['mountPath']}"]
            continue
        for file, text in world.get("configmap", volume["configMap"]["name"], "-n", "volcano-system")["data"].items():
            (files / file).write_text(text)
        words += ["--volume", f"{files}:{mount['mountPath']}:ro"]
    shown = directory / f"{name}.kubeconfig"
    shutil.copyfile(kubeconfig, shown)
    words += ["--volume", f"{shown}:/kubeconfig:ro"]
    for variable in container["env"]:
        words += ["--env", f"{variable['name']}={variable['value']}"]
    return [*words, container["image"], *container["args"], "--kubeconfig", "/kubeconfig"]
