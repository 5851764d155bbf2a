"""Pure functions that decide on changes of a host from one measurement of it, without clock, files or API."""
