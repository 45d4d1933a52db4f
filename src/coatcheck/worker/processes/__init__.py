"""Handlers in processes. wire.py describes how a worker and such a process communicate."""
