"""What differs between the replicas of one trial: the slow one, clocks, throttling."""
