"""API priority and fairness: which request is served next, and which is refused with 429."""
