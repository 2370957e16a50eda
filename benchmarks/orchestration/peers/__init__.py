"""Ways in which others run many trials; each file is one, run as `python -m`, and is told the
folders of the trials.
"""
