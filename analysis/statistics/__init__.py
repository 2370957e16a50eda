"""What repeats and steps can tell, and what they cannot: ratios, verdicts, trends, outliers and
plans. Pure functions.
"""
