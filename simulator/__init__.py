"""Plays trials by the cost model, as if GPUs of a hardware profile had run them; writes run folders
as the trainer does.
"""
