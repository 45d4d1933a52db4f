"""Rust, C, C++, C#, Ruby and PHP: definitions, imports, and calls resolved by scope.

There is no points-to analysis. A call is resolved if its form is explicit: a function of the same
file or an imported one, a method of the enclosing class, `Type::name`, `new Type`. A call on a
value of unknown type is left out.
"""
