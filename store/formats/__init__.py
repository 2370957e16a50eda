"""Other programs' formats: one file each, pure functions of text."""
