"""The live view of a sweep: drawn by its own process, or from the database in another terminal."""
