"""A Mesos master: it offers the free resources of this cluster's nodes to frameworks (spec mesos)."""
