"""Request parsing: bodies, forms, query parameters and headers."""
