"""The report's page, live: kept up to date as results land, and handed to browsers by a server that
can do nothing else.
"""
