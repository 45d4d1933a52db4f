"""Java and Go: declared types, and packages of several files that see each other's names.

Read into the same statements as Python. What a variable is declared as is believed where no value
is known for it; a value that is known is more precise.
"""
