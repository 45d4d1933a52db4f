"""The kinds of abstract objects. Plain module constants: the solver compares kinds all the time.

Two fields, `first` and `second`, identify an object within its kind.
"""

from __future__ import annotations

from typing import Final

FUNCTION: Final = 0  # index of the function
CLASS: Final = 1  # index of the class
INSTANCE: Final = 2  # index of the class: all instances of a class are one object
MODULE: Final = 3  # index of the module
EXTERNAL: Final = 4  # import path
BUILTIN: Final = 5  # name
BOUND: Final = 6  # the callable, and the object it gets as its first argument
CONTAINER: Final = 7  # the `Container`: one for each expression that creates one
GENERATOR: Final = 8  # index of the function
COROUTINE: Final = 9  # index of the function
CONSTANT: Final = 10  # the literal
TYPED: Final = 11  # name of a builtin type
PARTIAL: Final = 12  # index of the partial call
SUPER: Final = 13  # index of the class, and the receiver
PROPERTY: Final = 14  # index of the property
STATIC: Final = 15  # the function's object
CLASS_METHOD: Final = 16  # the function's object
METHOD_OF: Final = 17  # the receiver, and the name of a method of a builtin type
MANAGER_FACTORY: Final = 18  # the function's object, decorated with @contextmanager
MANAGER: Final = 19  # index of the function
NAMESPACE: Final = 20  # the object whose `__dict__` this is
DECORATOR: Final = 21  # name of the library function that returned the decorator
COUNT: Final = 22
