"""Software of others, as released and configured as its documentation says, against a fresh ``strato up``.

``make e2e-clients`` runs them. Each client lives below ``~/.cache/strato-clients`` (``environments.py``) and is driven
by a program of ``programs/``, which runs with the client's packages alone and prints ``ok …`` for what works.
"""
