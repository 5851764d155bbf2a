"""Images: what their names mean, how they come from registries and archives, and their store."""
