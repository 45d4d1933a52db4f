"""Points-to analysis: which functions each call can reach, for Python, JavaScript, Java and Go.

The analysis is inclusion-based, as Andersen's, and flow-insensitive between variables. Each file's
summary (`codegraph.summary`) states constraints on variables; the linker joins the summaries of an
archive and solves them. Each layer is a class that extends the one before:

    flow               variables, their values, copies and subscribers; the worklist
    program            functions, classes, modules, fields and call edges
    containers         lists, tuples, sets and dicts, by key
    attributes         attribute loads and stores along the method resolution order
    calls              calls: argument binding, construction, results
    operations         calls the language makes: iteration, `with`, `await`, operators, items
    container_methods  methods of builtin types
    models             builtins and a little of the standard library
    fallbacks          guesses for variables that are still empty
    linker             joins the files, runs the layers in order

`archive` resolves imports, `mro` orders base classes, `call_sites` holds calls, and `graph_writer`
turns the result into nodes and edges.
"""
