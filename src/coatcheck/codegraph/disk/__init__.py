"""What is known of the code, kept in files: memory holds what is in use, not all there is.

Who calls whom is known only once nothing flows any more, and until then any file of the archive may
still have a say in any other: what is known grows with the code. So it is numbers in columns
(column.py), which lie in files without a name that are mapped into memory. The kernel takes what is
not in use from memory and brings it back; a process that ends, however it ends, leaves nothing.
What a small archive needs is never written to a file at all.

On columns stand short lists of numbers (runs.py), numbers by keys (tables.py), words by number
(words.py) and numbers in line (queues.py). Beside them lies what each file says, until it is its
turn (shelf.py). What is made of them for a moment, as a function with its parameters, is kept while
it is asked for often (lately.py).
"""
