"""The verbs: reading (`read`), writing (`write`) and the subresources, over the shared `state`."""
