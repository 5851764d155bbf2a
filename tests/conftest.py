"""How all tests run: a slow machine is no failure, and two runs try the same examples.

``pytest --hypothesis-profile=explore`` tries new ones.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("patient", settings.get_profile("explore"), derandomize=True, database=None)
settings.load_profile("patient")
