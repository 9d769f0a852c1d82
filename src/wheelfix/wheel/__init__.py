"""A wheel file, read, described and written: zip, RECORD, WHEEL, METADATA, members, tags, edits.

What others use, as of a library of its own:

- `reader.open_wheel(path)` returns an `Archive`, whose `wheel` is a frozen `model.Wheel`: every
  member is read once, with its CRC-32 and its RECORD row.
- `edits.predict(wheel, edits)` returns the wheel as the edits will leave it.
- `writer.write_wheel(archive, after, content)` writes it to a file that gets its name when it is
  published; untouched members are copied as they are compressed.
- `platform_tags`, `requirements`, `grafted_name`: how tags, Requires-Dist and grafts are spelled.

A wheel that cannot be read raises `errors.BadWheelError` (PEP 427, PKWARE's APPNOTE).
"""
