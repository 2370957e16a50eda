"""Commands of `python -m plots`: each file brings one."""
