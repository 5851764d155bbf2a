"""TrainJobs of trainer.kubeflow.org: Jobs made of what a runtime and the job say (spec training K).

Upstream makes a JobSet of it and leaves the rest to its controller. Here the Jobs are made directly, with the names,
labels and variables that they have there.
"""
