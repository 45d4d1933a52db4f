"""Reading requests: bodies, forms, queries and headers."""
