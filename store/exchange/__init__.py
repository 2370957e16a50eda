"""Results leave a database and come into one: exports, imports, and the portable records between."""
