"""Parts of a pivot table: its axes, the labels of its rows and columns, and its cells."""
