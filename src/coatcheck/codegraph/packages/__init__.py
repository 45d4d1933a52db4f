"""Java and Go: declared types, and packages whose files share their names.

The readers produce the same constraints as for Python. A declared type is a fallback for a variable
without a known value, which is more precise.
"""
