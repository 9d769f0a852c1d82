"""One ELF file's bytes: read, edited and compared; knows nothing of wheels or of loading."""
