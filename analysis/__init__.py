"""Answers from results: statistics, scaling, explanation, prediction and advice."""
