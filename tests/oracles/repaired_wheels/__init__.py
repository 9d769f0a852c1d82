"""Random wheels, repaired by auditwheel and by wheelfix, installed, and loaded by the real loader.

A wheel holds a few modules, libraries and programs, in the package and in the `.data` folders. They
need libraries of a few folders of the machine, of which SONAMEs (some twice), search paths, symbols
and versions are random; so does each of these libraries.

Each object lists the numbers that its references point to, and each definition is a number of its
own: what a repair binds otherwise shows. What auditwheel publishes working must work after
wheelfix, with the same numbers.
"""
