"""A file per kind of program, which `read` calls by its name; each has ABOUT and create()."""
