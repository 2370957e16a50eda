"""Results as pandas frames, for notebooks and programs: what `import scalemark` offers."""
