"""Who owns which fields of an object: sets of paths, typed merge and comparison, conflicts. Pure: no store, no clock.

Behaviour is that of structured-merge-diff and of apimachinery's managed fields, which every Kubernetes API server uses.
"""
