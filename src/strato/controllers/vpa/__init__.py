"""VerticalPodAutoscalers: a recommender, and resizing of running pods (spec utilisation 6.1).

`targets` finds the pods of an autoscaler, `recommendations` makes its status out of estimates, `checkpoints` keeps
histograms across restarts, `recommender` asks what pods use and writes. What is estimated is in `strato.advice`.
"""

from strato.controllers.vpa.recommender import VerticalAutoscalerController

__all__ = ["VerticalAutoscalerController"]
