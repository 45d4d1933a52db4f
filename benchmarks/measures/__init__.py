"""The measures: each module has a function `measure` that takes a Plan and returns its tables."""
