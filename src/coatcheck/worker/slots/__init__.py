"""Slots for running handlers, and how many jobs to claim for them."""
