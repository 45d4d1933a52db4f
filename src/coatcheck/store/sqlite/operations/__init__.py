"""Operations on jobs inside a write transaction. Each can be run again after a rollback."""
