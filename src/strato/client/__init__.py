"""Room `client`: see docs/architecture.md."""
