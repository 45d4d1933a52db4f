"""Rust, C, C++, C#, Ruby and PHP: definitions, imports, and calls as far as scopes carry.

No values flow here. A call is resolved where its own form says what is meant: a function of the
same file or one that is imported, a method of the class it stands in, `Type::name`, `new Type`. A
call on a value of which only the name is known is left out.
"""
