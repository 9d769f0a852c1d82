"""One ELF file's bytes: read, edited and compared; knows nothing of wheels or of loading.

What others use, as of a library of its own:

- `reader.read_elf(data, name)` returns a `model.Elf`, the dynamic section as the loader sees it;
  `reader.build_id` its build-id; `exports.read_symbol_tables` what it defines and refers to.
- `editor.edit(data, revision, name)` makes the `Patch` of what a `revision.Revision` asks for;
  `compare.differences(before, after, predicted)` proves that nothing else has changed.
- `strip.py` removes sections, `demangle.demangle` reads C++ names,
  `object_file_names` those of files.

Bytes that cannot be read raise `errors.BadElfError`. The source of each fact is the gABI, a psABI
or glibc's elf.h; `constants.py` has the numbers.
"""
