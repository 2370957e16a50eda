"""Plays trials by the cost model on a hardware profile; leaves run folders as the trainer does."""
