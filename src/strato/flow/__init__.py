"""Room `flow`: see docs/architecture.md."""
