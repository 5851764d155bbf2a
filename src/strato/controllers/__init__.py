"""Room `controllers`: see docs/architecture.md."""
