"""Parts that charts are drawn with: figures, curves, rows, text, colors, files."""
