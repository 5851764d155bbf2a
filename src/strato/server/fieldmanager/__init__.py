"""Field ownership: sets of field paths, typed merge and comparison, conflicts. Pure: no store, no clock.

It behaves as structured-merge-diff and apimachinery's managed fields, which every Kubernetes API server uses.
"""
