"""Room `sim`: see docs/architecture.md."""
