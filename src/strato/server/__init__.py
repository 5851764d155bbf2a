"""Room `server`: see docs/architecture.md."""
