"""Why a job, a pod or a workload is as it is: one set of rules for `explain`, `job view`, `list`, `logs` and `--wait`.

Pure functions over objects as the Kubernetes API stores them (statuses, conditions, events), so that they hold on any
server. Why a pod waits for the scheduler is left to the scheduler's engine (`strato.scheduler.dryrun.examine`).
"""
