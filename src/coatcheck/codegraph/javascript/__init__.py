"""JavaScript and TypeScript: read into the same places and statements as Python, and linked so.

What differs: names are hoisted, `this` is a parameter that is not written, objects are containers
whose keys are attributes, modules are files that name each other by path.
"""
