"""What is measured on PostgreSQL, a module for each."""
