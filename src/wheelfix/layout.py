"""Where an installer puts each file of a wheel.

A wheel's folders say to which *path of an install scheme* a file belongs (PEP 427, "Spreading
files"); the scheme says where that path is. A relative search path is right only if it is right
in every scheme that the wheel's tags allow.
"""
