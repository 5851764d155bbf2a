"""Find this machine's NVIDIA GPUs and the driver's libraries.

This module reads files and runs ``nvidia-smi``; `gpus` interprets the results.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
from dataclasses import dataclass

from strato.errors import one_line
from strato.node.sandbox.gpus import SMI_QUERY, GpuSources
from strato.node.sandbox.volumes import Mount

CONTROL_DEVICES = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset")
"""Device files every container with a GPU needs beside the card's own."""
INSIDE = "/usr/local/nvidia"
"""Directory of the driver's libraries in containers on images, as on other clusters."""
SMI_TIMEOUT_SECONDS = 20.0
"""Long, because a driver that is not loaded yet takes seconds to start."""

_OWN_FOLDERS = ("usr/local/nvidia/lib64", "usr/lib/wsl/lib")
"""Folders that contain only the driver, and which are not on the linker's default path."""
_COMMON_FOLDERS = ("usr/lib/{machine}-linux-gnu", "usr/lib64", "usr/lib")
_LIBRARY = re.compile(
    r"lib(cuda|cudadebugger|nvidia-(ml|cfg|nvvm\d*|ptxjitcompiler|gpucomp|opencl|allocator))\.so[.\d]*"
)
_PROGRAM_FOLDERS = ("usr/bin", "usr/local/nvidia/bin", "usr/lib/wsl/lib")


@dataclass(frozen=True, slots=True)
class Driver:
    """Paths of the driver's user-space parts."""

    folder: str = ""
    """Folder of its libraries; empty when there are none."""
    is_own: bool = False
    """Whether that folder is the driver's alone, so that the linker needs its path."""
    smi: str = ""
    """The program ``nvidia-smi``."""

    def mounts(self) -> list[Mount]:
        """Return the mounts that show the driver to a container on an image."""
        if not self.folder:
            return []
        names = sorted(name for name in os.listdir(self.folder) if _LIBRARY.fullmatch(name))
        shown = [(os.path.realpath(f"{self.folder}/{name}"), f"{INSIDE}/lib64/{name}") for name in names]
        if self.smi:
            shown.append((self.smi, f"{INSIDE}/bin/nvidia-smi"))
        return [Mount(source, target, read_only=True, programs=True) for source, target in shown]

    def library_path(self, *, own_root: bool) -> str:
        """Return the folder to add to ``LD_LIBRARY_PATH``, empty for none.

        Args:
            own_root: Whether the container's root is an image instead of this machine's.
        """
        if not self.folder:
            return ""
        if own_root:
            return f"{INSIDE}/lib64"
        return self.folder if self.is_own else ""


def driver(root: str = "/") -> Driver:
    """Find the driver's libraries and programs.

    Args:
        root: Where the machine's files are; anything but ``/`` is for tests.
    """
    common = [folder.format(machine=os.uname().machine) for folder in _COMMON_FOLDERS]
    folders = [
        path for name in (*_OWN_FOLDERS, *common) if os.path.exists(os.path.join(path := root + name, "libcuda.so.1"))
    ]
    folder = folders[0] if folders else ""
    return Driver(folder, folder.endswith(_OWN_FOLDERS), _program(root))


def _program(root: str) -> str:
    found = shutil.which("nvidia-smi") if root == "/" else None
    places = (root + folder + "/nvidia-smi" for folder in _PROGRAM_FOLDERS)
    return found or next((path for path in places if os.access(path, os.X_OK)), "")


async def look(smi: str, root: str = "/") -> GpuSources:
    """Read the sources about GPUs. On a machine without GPUs that is listing two folders.

    Args:
        smi: The program ``nvidia-smi``; empty leaves it out.
        root: Where the machine's files are; anything but ``/`` is for tests.
    """
    devices = tuple(name for name in _entries(root + "dev") if name.startswith("nvidia"))
    records = root + "proc/driver/nvidia/gpus"
    texts = tuple(_text(f"{records}/{name}/information") for name in sorted(_entries(records)))
    if not texts and not any(name[6:].isdecimal() for name in devices):
        return GpuSources()
    if not smi:
        return GpuSources(devices, texts)
    try:
        return GpuSources(devices, texts, smi=await _ask(smi))
    except (OSError, TimeoutError) as err:
        why = one_line(err) if str(err) else f"no answer within {SMI_TIMEOUT_SECONDS:g} s"
        return GpuSources(devices, texts, smi_problem=why)


async def _ask(smi: str) -> str:
    process = await asyncio.create_subprocess_exec(
        smi,
        *SMI_QUERY,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(SMI_TIMEOUT_SECONDS):
            output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    text = output.decode(errors="replace")
    if process.returncode:
        raise OSError(" ".join(text.split())[:200] or f"exit status {process.returncode}")
    return text


def _entries(path: str) -> list[str]:
    try:
        return os.listdir(path)
    except OSError:
        return []


def _text(path: str) -> str:
    with contextlib.suppress(OSError), open(path, errors="replace") as file:
        return file.read()
    return ""
