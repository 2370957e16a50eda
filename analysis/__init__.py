"""Pure functions of what the database holds: scaling now; statistics, explanation and prediction in
later versions.
"""
