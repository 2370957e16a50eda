"""The report's page, kept up to date as results land, and a server that can do nothing but hand it
out.
"""
