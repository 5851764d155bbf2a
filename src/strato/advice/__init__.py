"""Recommend requests: targets and bounds for containers, computed from their past use.

Pure functions; of Kubernetes they use only the notation of quantities.

The package has histograms whose samples lose weight with age, the aggregated use of containers, and the rules that
compute amounts from these. Callers supply the samples and apply the advice. Bottom up:

- `histogram`: weights of values in buckets, their percentiles and checkpoints
- `use`: CPU samples and memory peaks of one container, and the histograms of equal containers together
- `estimators`: amounts from these, as the vertical pod autoscaler's recommender estimates them
- `roles`, `autopilot`: recommended requests for the replicas of a training job's role, by two policies

CPU is in cores where it is measured and in whole millicores where it is advised; memory is in bytes; instants are
seconds since the epoch.
"""
