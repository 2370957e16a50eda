"""Pure functions of repeats and steps: ratios, judgements, trends, outliers and plans."""
