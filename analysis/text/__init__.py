"""Words and numbers that tables, charts, and answers share."""
