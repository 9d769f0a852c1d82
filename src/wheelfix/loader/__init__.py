"""Install schemes, and which file and symbol the loaders of glibc and musl take."""
