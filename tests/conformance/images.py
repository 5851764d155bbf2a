"""The images that the specs name, made of real software: programs built from Kubernetes' sources, packages of Debian.

No registry is asked. Each image is an OCI layout in the cache; `docs/conformance.md` lists what stands for what.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import platform
import re
import shutil
import subprocess
import tarfile
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Json = dict[str, Any]
REGISTRY = "registry.k8s.io"
E2E = f"{REGISTRY}/e2e-test-images"
RELEASE = "trixie"
"""Of Debian: it has the version of BusyBox that the suite's image has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What is in an image, and how it starts."""

    names: tuple[str, ...]
    packages: tuple[str, ...] = ()
    """Of Debian, with what they depend on."""
    files: dict[str, str] = field(default_factory=dict)
    """Path in the image → file below the folder of built programs (``source/`` is Kubernetes' source)."""
    config: Json = field(default_factory=dict)
    """The OCI configuration's ``config``."""
    stands_for: str = ""
    """What differs from the original, for the documentation."""


_AGNHOST_TOOLS = (  # dash is the shell: Debian's BusyBox, as one, runs its own nc whatever the path says
    "busybox-static",
    "bash",
    "bind9-dnsutils",
    "curl",
    "dash",
    "netcat-openbsd",
    "iproute2",
    "libc-bin",
    "util-linux",
)
_ALTERNATIVES = {"nc": "nc.openbsd", "sh": "dash"}
"""Links that scripts of packages would make."""
_PORTER = {f"/localhost.{kind}": f"source/test/images/agnhost/porter/localhost.{kind}" for kind in ("crt", "key")}
_AGNHOST = {"/agnhost": "agnhost", "/agnhost-2": "agnhost", **_PORTER}
_START = {"Entrypoint": ["/agnhost"], "Cmd": ["pause"]}


def _guestbook_image(name: str) -> Recipe:
    below = f"source/test/images/{name}/html"
    return Recipe(
        names=(f"{E2E}/{name}:1.8",),
        packages=_AGNHOST_TOOLS,
        files={**_AGNHOST, "/data.json": f"{below}/data.json", f"/{name}.jpg": f"{below}/{name}.jpg"},
        config=_START | {"Cmd": ["test-webserver"]},
        stands_for="agnhost of this list with the files of its source",
    )


RECIPES = (
    Recipe(
        names=(f"{E2E}/agnhost:2.63.0", f"{E2E}/agnhost:2.55"),
        packages=_AGNHOST_TOOLS,
        files=_AGNHOST,
        config=_START,
        stands_for="agnhost built from its source (2.63.0 under both tags: the specs want two names of it); tools of "
        "Debian and BusyBox instead of Alpine; no CoreDNS, iperf and private registry inside",
    ),
    Recipe(
        names=(f"{E2E}/busybox:1.37.0-1",),
        packages=("busybox-static",),
        config={"Cmd": ["sh"]},
        stands_for="BusyBox of Debian, of the same version",
    ),
    Recipe(
        names=(f"{E2E}/nginx:1.15-4", f"{E2E}/nginx:1.27-0"),
        packages=("busybox-static", "nginx-light"),
        config={"Cmd": ["nginx", "-g", "daemon off;"]},
        stands_for="nginx of Debian, one version under both tags",
    ),
    Recipe(
        names=(f"{REGISTRY}/pause:3.10.2",),
        files={"/pause": "pause"},
        config={"Entrypoint": ["/pause"], "User": "65535:65535"},
        stands_for="pause compiled from its source",
    ),
    Recipe(
        names=(f"{E2E}/nonewprivs:1.4",),
        packages=("busybox-static",),
        files={"/usr/local/bin/nnp": "nnp"},
        config={"Cmd": ["nnp"]},
        stands_for="its program built from its source, on BusyBox instead of Alpine",
    ),
    Recipe(
        names=(f"{E2E}/nonroot:1.5",),
        packages=("busybox-static", "bash"),
        config={"Cmd": ["sh"], "User": "1234"},
        stands_for="BusyBox and bash of Debian",
    ),
    Recipe(
        names=(f"{E2E}/glibc-dns-testing:2.0.0",),
        packages=("busybox-static", "bash", "bind9-dnsutils", "libc-bin"),
        config={"Cmd": ["bash"]},
        stands_for="dnsutils and the C library of Debian, as the original; no CoreDNS",
    ),
    _guestbook_image("nautilus"),
    _guestbook_image("kitten"),
)


def build_images(programs: Path) -> dict[str, Path]:
    """Make what is not made yet; return the OCI layout of each image's name.

    Raises:
        CalledProcessError: Debian's packages cannot be had.
    """
    _compile_pause(programs)
    layouts: dict[str, Path] = {}
    for recipe in RECIPES:
        layout = programs / "images" / recipe.names[0].rpartition("/")[2].replace(":", "-")
        if not (layout / "index.json").exists():
            _build(recipe, programs, layout)
        layouts |= dict.fromkeys(recipe.names, layout)
    return layouts


def _compile_pause(programs: Path) -> None:
    if not (programs / "pause").exists():
        source = programs / "source/build/pause/linux/pause.c"
        subprocess.run(["gcc", "-static", "-Os", "-DVERSION=3.10.2", "-o", programs / "pause", source], check=True)


def _build(recipe: Recipe, programs: Path, layout: Path) -> None:
    with tempfile.TemporaryDirectory(dir=programs) as text:
        root = Path(text) / "root"
        root.mkdir(mode=0o755)
        _unpack_packages(recipe.packages, root, programs / "debs")
        for target, source in recipe.files.items():
            place = root / target.lstrip("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(programs / source, place)
        if "/usr/local/bin/nnp" in recipe.files:
            (root / "usr/local/bin/nnp").chmod(0o4755)
        _write_accounts(root)
        fresh = Path(text) / "layout"
        _write_layout(root, recipe.config, fresh)
        layout.parent.mkdir(exist_ok=True)
        fresh.rename(layout)


def _unpack_packages(packages: tuple[str, ...], root: Path, downloads: Path) -> None:
    for name in ("tmp", "var/tmp", "etc", "root", "uploads", "proc", "sys", "dev", "run", "home"):
        (root / name).mkdir(parents=True, exist_ok=True)
    for name in ("tmp", "var/tmp", "uploads"):
        (root / name).chmod(0o1777)
    for name in ("bin", "sbin", "lib", "lib64"):  # as Debian has them: the packages know those below /usr alone
        (root / "usr" / name).mkdir(parents=True, exist_ok=True)
        (root / name).symlink_to(f"usr/{name}")
    if not packages:
        return
    apt = _apt(downloads)
    subprocess.run([*apt, "--download-only", "install", *packages], check=True)
    listing = subprocess.run(
        [*apt, "--simulate", "install", *packages], check=True, capture_output=True, text=True
    ).stdout
    for line in listing.splitlines():
        if line.startswith("Inst "):
            name, version = line.split()[1], line.partition("(")[2].split()[0]
            (deb,) = downloads.glob(f"{name}_{version.replace(':', '%3a')}_*.deb")
            subprocess.run(["dpkg-deb", "--extract", deb, root], check=True)
    for link, program in _ALTERNATIVES.items():
        if (root / "bin" / program).exists() and not (root / "bin" / link).is_symlink():
            (root / "bin" / link).symlink_to(program)
    if (root / "bin/busybox").exists():
        taken = {entry.name for folder in ("usr/bin", "usr/sbin") for entry in (root / folder).glob("*")}
        applets = subprocess.run([root / "bin/busybox", "--list"], check=True, capture_output=True, text=True).stdout
        for applet in set(applets.split()) - taken:
            (root / "bin" / applet).symlink_to("busybox")


def _apt(downloads: Path) -> list[str]:
    """Return apt-get as it installs into nothing, from Debian's release that has the versions the images name."""
    (downloads / "partial").mkdir(parents=True, exist_ok=True)
    (downloads / "lists/partial").mkdir(parents=True, exist_ok=True)
    nothing, sources = downloads / "no-status", downloads / "sources.list"
    choices = [
        "APT::Sandbox::User=root",
        "APT::Install-Recommends=false",
        "Debug::NoLocking=true",
        "Dir::Etc::sourceparts=-",
        f"Dir::Etc::sourcelist={sources}",
        f"Dir::State::lists={downloads / 'lists'}",
        f"Dir::State::status={nothing}",
        f"Dir::Cache::archives={downloads}",
    ]
    apt = ["apt-get", "-qq", "--yes", *(f"-o{choice}" for choice in choices)]
    if not nothing.exists():
        keys = "/usr/share/keyrings/debian-archive-keyring.gpg"
        sources.write_text(f"deb [signed-by={keys}] {_mirror()} {RELEASE} main\n")
        subprocess.run([*apt, "update"], check=True)
        nothing.touch()  # nothing counts as installed: all that the packages depend on is fetched
    return apt


def _mirror() -> str:
    """Return where this machine has Debian's packages from."""
    files = [Path("/etc/apt/sources.list"), *Path("/etc/apt/sources.list.d").glob("*")]
    text = "\n".join(file.read_text() for file in files if file.is_file())
    found = re.search(r"^(?:URIs: *|deb .*?)(https?://\S+/debian/?)(?:\s|$)", text, re.MULTILINE)
    if found is None:
        raise SystemExit("error: no mirror of Debian is named below /etc/apt; the images are made of its packages")
    return found[1]


def _write_accounts(root: Path) -> None:
    """Write the accounts that Debian's base-passwd and the images' own build steps would make."""
    etc = root / "etc"
    users = "root:x:0:0:root:/root:/bin/sh\nwww-data:x:33:33::/var/www:/bin/false\nnobody:x:65534:65534::/:/bin/false\n"
    groups = "root:x:0:\nadm:x:4:\nshadow:x:42:\nwww-data:x:33:\nnogroup:x:65534:\n"
    (etc / "passwd").write_text(users + "user-defined-in-image:x:1000:1000::/home/user-defined-in-image:/bin/sh\n")
    defined = "user-defined-in-image:x:1000:\ngroup-defined-in-image:x:50000:user-defined-in-image\n"
    (etc / "group").write_text(groups + defined)
    (etc / "nsswitch.conf").write_text("hosts: files dns\n")


def _write_layout(root: Path, config: Json, layout: Path) -> None:
    blobs = layout / "blobs/sha256"
    blobs.mkdir(parents=True)
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w") as archive:
        archive.add(root, arcname=".", filter=_as_root)
    layer = gzip.compress(tar.getvalue(), compresslevel=1, mtime=0)
    arch = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    variables = {"Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]}
    described = {
        "architecture": arch,
        "os": "linux",
        "config": variables | config,
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(tar.getvalue()).hexdigest()}"]},
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": _blob(blobs, json.dumps(described).encode(), "config.v1+json"),
        "layers": [_blob(blobs, layer, "layer.v1.tar+gzip")],
    }
    index = {"schemaVersion": 2, "manifests": [_blob(blobs, json.dumps(manifest).encode(), "manifest.v1+json")]}
    (layout / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    (layout / "index.json").write_text(json.dumps(index))


def _as_root(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = "root"
    return entry


def _blob(blobs: Path, data: bytes, kind: str) -> Json:
    digest = hashlib.sha256(data).hexdigest()
    (blobs / digest).write_bytes(data)
    kind = f"application/vnd.oci.image.{kind}"
    return {"mediaType": kind, "digest": f"sha256:{digest}", "size": os.path.getsize(blobs / digest)}
