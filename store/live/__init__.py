"""How a sweep stands, for people who watch it: from its own process, or from the database in
another terminal.
"""
