"""How all tests run: a slow machine is no failure, and two runs try the same examples.

``pytest --hypothesis-profile=explore`` tries new ones, ``--hypothesis-profile=long`` 1,000 with each test that says by
`tests.profiles.examples` how many it tries.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

from tests.profiles import LONG

# gRPC, which the flow service's tests load, starts threads of its own in every forked process unless this says no.
# Those of a shadow policy's process would find its files closed, and abort it.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("patient", settings.get_profile("explore"), derandomize=True, database=None)
settings.register_profile("long", settings.get_profile("explore"), max_examples=LONG)
settings.load_profile("patient")
