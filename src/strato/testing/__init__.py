"""Room `testing`: see docs/architecture.md."""
