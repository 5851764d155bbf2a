"""Volumes and devices: what pods claim, what there is, and what is written before a bind."""
