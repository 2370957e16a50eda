"""Commands about the results database, a file per purpose."""
