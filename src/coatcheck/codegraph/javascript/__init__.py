"""JavaScript and TypeScript: the reader and the linker, on the same constraints as for Python.

The differences: names are hoisted, `this` is an implicit parameter, objects are containers whose
keys are attributes, and modules name each other by path.
"""
