"""Feeds replicas with images from TFRecords."""
