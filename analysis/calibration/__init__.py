"""Calibration: the rates of the cost model as a place's own rows tell them, how sure they are, and
what follows.
"""
