"""Calibration: learn the rates of the cost model from rows of one environment, and predict."""
