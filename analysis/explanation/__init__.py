"""Where the missing speed-up of a trial goes: the trials to subtract, the waterfall, the verdict
and what to do.
"""
