"""Diagrams: source text in, a picture out."""
