"""Campaigns that attack the software: `make attack` runs them whole, `make attack-slice` a small part of each.

Each module is one campaign: ``python -m tests.attack.NAME --count N --seed S`` shows progress, prints a table and exits
with 1 when it found something. `test_NAME.py` runs a slice of it. What they found safe, with counts, is in
``docs/security.md`` and ``docs/reliability.md``.
"""
