"""The bindings of one load, by the loader's model."""

from wheelfix.loader.load_values import Load
from wheelfix.loader.symbol_lookup import Reference, Scope, SymbolIndex


def bindings(load: Load, index: SymbolIndex) -> dict[Reference, str | None]:
    """Return the object that each undefined reference of `load` binds to, None without one."""
    scope = Scope(load.objects, index)
    return {
        Reference(path, symbol.name, symbol.version, symbol.weak): scope.lookup(
            symbol.name, symbol.version
        )
        for path in load.objects
        for symbol in index.libraries[path].elf.undefined
    }
