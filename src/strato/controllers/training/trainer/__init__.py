"""TrainJobs of trainer.kubeflow.org: Jobs made from a runtime and the TrainJob's own members (spec training K).

Upstream makes a JobSet, whose controller makes the Jobs. Strato makes the Jobs directly, with the names, labels and
variables that the JobSet controller would give them.
"""
