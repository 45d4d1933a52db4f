"""The JSON documents of the HTTP API, one `TypedDict` for each resource.

A document has three readers: the view function that builds it (its return type), OpenAPI (schema.py
derives the schema from the annotations), and the client (the type of a parsed response). Documents
that contain JSON text as it is stored, such as a job's result, are written around that text; their
view functions return the members before and after it.
"""
