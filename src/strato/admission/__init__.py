"""Room `admission`: see docs/architecture.md."""
