"""Coatcheck: hand in slow work, get a ticket, come back for the result."""
