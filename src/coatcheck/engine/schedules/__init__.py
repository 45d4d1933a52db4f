"""Schedules and the scheduler that fires them."""
