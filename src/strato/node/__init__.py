"""Room `node`: see docs/architecture.md."""
