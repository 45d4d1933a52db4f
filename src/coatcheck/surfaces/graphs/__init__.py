"""Code graphs: a codebase in, its structure out."""
