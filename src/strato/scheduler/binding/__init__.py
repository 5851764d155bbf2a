"""Who carries a plan out: binds, evictions, and the volumes and devices a pod needs first."""
