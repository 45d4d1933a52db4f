"""Passages to vectors.

The model that is installed with us needs nobody; an endpoint is what many have already.

    base.py         what an embedder is
    settings.py     what an operator can set
    open.py         from settings to an embedder
    offline.py      the model that is installed with us
    endpoint.py     what calls to an endpoint have in common, and what its errors mean
    ollama.py       /api/embed
    openai.py       /v1/embeddings
"""
