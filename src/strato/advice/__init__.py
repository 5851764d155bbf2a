"""What to request: targets and bounds for containers, out of what they used.

Pure; of Kubernetes it knows only how amounts are written.

Belongs here: histograms whose samples lose weight with age, what is kept of a container's use, and the rules that
make amounts of it. Does not: where samples come from and where advice goes. Bottom up:

- `histogram`: weights of values in buckets, their percentiles and checkpoints
- `use`: of one container its CPU samples and memory peaks, of equal containers together their histograms
- `estimators`: amounts from these, as the vertical pod autoscaler's recommender estimates them
- `roles`, `autopilot`: what the replicas of a training job's role shall request, by two policies

CPU is in cores where it is measured and in whole millicores where it is advised; memory is in bytes; instants are
seconds since the epoch.
"""
