"""Workloads: their jobs (`jobs`), models that generate them (`lublin`, `fitted`), `scale`. `sim.traces` reads files."""
