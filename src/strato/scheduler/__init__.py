"""Room `scheduler`: see docs/architecture.md."""
