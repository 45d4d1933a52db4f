"""The foreman surface: a queue in front of Ollama that works with Ollama's own clients."""
