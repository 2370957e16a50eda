"""The processes of a distributed trial: who they are, how they start, and how they are watched."""
