"""The Python API, for notebooks and programs: what `import scalemark` offers."""
