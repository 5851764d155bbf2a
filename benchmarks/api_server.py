"""The API server alone in a process of its own: ``python -m benchmarks.api_server HOME``; for `benchmarks.api`.

No controllers, no scheduler, no nodes. Prints ``ready SECONDS CPU_SECONDS`` when it serves, both since its first line,
and then serves HTTPS until it is killed; ``HOME/kubeconfig`` says where.
"""

from __future__ import annotations

import asyncio
import gc
import random
import sys
import time
from pathlib import Path

BEGAN = time.monotonic()

from strato.clock import SystemClock  # noqa: E402 - importing is part of a restart
from strato.http.listen import serve  # noqa: E402  # after the path is set
from strato.http.tls import server_context  # noqa: E402  # after the path is set
from strato.server import bootstrap  # noqa: E402  # after the path is set
from strato.server.auth import kubeconfig  # noqa: E402  # after the path is set
from strato.server.auth.ca import CertificateAuthority  # noqa: E402  # after the path is set
from strato.server.auth.identity import Authenticator  # noqa: E402  # after the path is set
from strato.server.auth.tokens import Tokens  # noqa: E402  # after the path is set
from strato.server.embedded import open_server  # noqa: E402  # after the path is set
from strato.server.http import create_app  # noqa: E402  # after the path is set

OTHERS = {"view": bootstrap.VIEWER, "flood": bootstrap.CONTROLLERS}
"""More users, by the ends of the names of their kubeconfigs."""


async def main(home: Path) -> None:
    clock = SystemClock()
    tokens = Tokens(home / "tokens.json")
    tokens.ensure([bootstrap.ADMIN, *OTHERS.values()])
    authority = CertificateAuthority(home / "pki", clock)
    authenticator = Authenticator(tokens, authority)
    server, _ = open_server(clock, random.Random(1), home / "journal.db", rbac=True, bootstrap=bootstrap.objects())
    certificate, key = authority.server_files()
    app = create_app(server, authenticator, flows=server.state.flows)
    http = await serve(app, tls=server_context(certificate, key))
    token = tokens.token(bootstrap.ADMIN.name)
    address = f"https://127.0.0.1:{http.port}"
    kubeconfig.write(home / "kubeconfig", address, user="bench", token=token, ca=authority.certificate)
    for name, user in OTHERS.items():
        path, token = home / f"kubeconfig-{name}", tokens.token(user.name)
        kubeconfig.write(path, address, user=user.name, token=token, ca=authority.certificate)
    print(f"ready {time.monotonic() - BEGAN} {time.process_time()}", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    gc.set_threshold(50_000, 20, 50)  # as `strato up` does
    try:
        import uvloop
    except ImportError:
        asyncio.run(main(Path(sys.argv[1])))
    else:
        uvloop.run(main(Path(sys.argv[1])))
