"""Durable state: the Store protocol, and one package for each implementation."""
