"""Foreman: a queue before Ollama, that Ollama's own clients take for Ollama."""
