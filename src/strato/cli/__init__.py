"""Room `cli`: see docs/architecture.md."""
