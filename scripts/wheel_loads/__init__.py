"""Objects of an installed wheel, loaded by the real loader (glibc) and by the model."""
