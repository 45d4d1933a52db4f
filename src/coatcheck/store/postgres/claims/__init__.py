"""Claims on PostgreSQL: the fast path, the fair path, and the choice between them."""
