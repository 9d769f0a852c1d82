"""Random installations, loaded by the real loader (glibc or musl) and by the model.

An installation is a few directories with libraries, of which SONAMEs, search paths, links, versions
and symbols are random, and a program that opens some of them. The objects are written from bytes:
thousands are needed, and a compiler takes 30 ms for each.

Compared are, for the start and each dlopen: whether it fails, and what the message blames; what is
loaded, in order; with glibc, the files that were tried, in order, and every symbol that was bound,
with its version, in order; with musl, which prints nothing, the targets of the relocated places.
"""
