"""What launcher=ray knows of Ray: the cluster, what its hosts can give, and the task that runs an
agent.
"""
