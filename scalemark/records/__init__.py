"""The vocabulary: what a trial, a measurement, an attempt and a machine are. Standard library
only."""
