"""Reading archives that callers send; unsafe names and zip bombs are rejected first."""
