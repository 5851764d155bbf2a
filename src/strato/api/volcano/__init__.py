"""Views of Volcano's groups, one module per group (spec volcano-api sections 3-13)."""
