"""Ask a real kube-apiserver what the table of requests answers: ``python -m tests.server.rest.record``.

Writes ``answers.json`` beside this file. Needs the control plane that ``tests/e2e/kube/controlplane/build.sh`` builds.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from zlib import crc32

from tests.e2e.worlds import KubeWorld
from tests.server.rest.cases import CASES
from tests.server.rest.servers import Remote
from tests.server.rest.steps import Case, play

ANSWERS = Path(__file__).with_name("answers.json")
_AT_ONCE = 8


@contextlib.contextmanager
def kube_apiserver() -> Iterator[Remote]:
    """Run kube-apiserver and etcd, nothing else that could change what a request left behind."""
    with tempfile.TemporaryDirectory(prefix="strato-record-") as directory:
        world = KubeWorld(Path(directory))
        try:
            world.start_api_server(disabled_plugins="")
            config = json.loads(world.kubeconfig.read_text())
            port = urlsplit(config["clusters"][0]["cluster"]["server"]).port
            assert port is not None
            yield Remote(port, config["users"][0]["user"]["token"])
        finally:
            world.stop()


def places(case: Case) -> tuple[str, str]:
    """Return the case's own namespace and the suffix of its cluster-wide names."""
    slug = re.sub(r"[^a-z0-9]+", "-", case.name.lower()).strip("-")
    return f"case-{slug}", f"x{crc32(slug.encode()):08x}"


async def ask_all(server: Remote) -> dict[str, list[Any]]:
    """Return the answers to every case by its name."""
    gate = asyncio.Semaphore(_AT_ONCE)

    async def one(case: Case) -> list[Any]:
        async with gate:
            return await play(server, case, *places(case))

    answers = await asyncio.gather(*(one(case) for case in CASES))
    return {case.name: answer for case, answer in zip(CASES, answers, strict=True)}


def recorded() -> dict[str, list[Any]]:
    """Return the answers on record."""
    answers: dict[str, list[Any]] = json.loads(ANSWERS.read_text())
    return answers


def main() -> int:
    with kube_apiserver() as server:
        answers = asyncio.run(ask_all(server))
    ANSWERS.write_text(json.dumps(answers, indent=1, ensure_ascii=False) + "\n")
    sys.stdout.write(f"{len(answers)} cases, {sum(map(len, answers.values()))} answers in {ANSWERS.name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
