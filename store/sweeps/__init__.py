"""Where sweeps and their repeats stand in the database, for one orchestrator or for many agents."""
