"""The base class of surfaces and their shared code."""
