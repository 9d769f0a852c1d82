"""A wheel file, read, described and written: zip, RECORD, WHEEL, METADATA, members, tags, edits."""
