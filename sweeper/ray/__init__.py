"""Speaks with Ray for launcher=ray: the cluster, what its hosts can give, the task that runs an
agent.
"""
