"""Ways in which others run many trials; each file is one, run as `python -m`, and is reported the
folders of the trials.
"""
