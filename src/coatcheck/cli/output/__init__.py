"""Terminal output: tables, job pages, live progress, JSON."""
