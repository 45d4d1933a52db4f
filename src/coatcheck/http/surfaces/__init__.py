"""The base of surfaces, and what they share."""
