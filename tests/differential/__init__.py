"""The same generated requests to the embedded server and to a real kube-apiserver: ``make differential``."""
