"""Passages to vectors, by the offline model or an endpoint.

base.py         the Embedder protocol and its errors
settings.py     the operator's settings
open.py         from settings to an embedder
offline.py      the offline embedder (minilm.py, wordpiece.py, weights.py)
endpoint.py     embedders that call an endpoint: Ollama, OpenAI
"""
