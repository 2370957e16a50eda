"""Looks after single attempts: their order, their folders, their deadlines, and what killed ones
left.
"""
