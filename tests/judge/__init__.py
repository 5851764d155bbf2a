"""Kubeflow's own operators as judges: the same jobs and the same fates of pods for theirs and for ours, compared.

Each side has a real kube-apiserver of its own. Nobody schedules or runs pods: what the scheduler and the kubelets
would write is played by `play`, so that both sides see the same.
"""
