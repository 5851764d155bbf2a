"""The API's verbs: reading (`read`), writing (`write`, `delete`) and subresources, over the shared `State`."""
