"""Passes over the training graph: one file each, named for what it does."""
