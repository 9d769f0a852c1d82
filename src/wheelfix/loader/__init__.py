"""Install schemes, and which file and symbol the loaders of glibc, musl and Android take.

What others use, as of a library of its own:

- `install_schemes.layouts(wheel)`: where installers put each member.
- `targets.find(name)`: a machine by name, with what its C library and its folders have.
- `loading.load_each(roots, environment)`: a `load_values.Load` for each object that is opened, with
  every request, the candidates in order and the file that is taken (elf/dl-load.c, ldso/dynlink.c).
- `symbol_lookup.Scope` and `process_bindings`: which definition a reference binds to.
- `symbol_versions`, `static_tls`, `python_api`, `platform_libraries`: what a load may lack besides.

Nothing is opened or run here: an `Environment` says which files there are.
"""
