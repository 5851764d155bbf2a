"""Room `api`: see docs/architecture.md."""
