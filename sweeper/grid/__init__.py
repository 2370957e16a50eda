"""Composes the cells of a grid from the command line and the files in conf/, and plans them."""
