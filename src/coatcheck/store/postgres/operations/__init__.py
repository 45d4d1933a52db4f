"""Operations on batches of jobs inside one PostgreSQL transaction, and their effects."""
