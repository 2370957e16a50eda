"""How the throughput of trials went over nights, and what changed it."""
