"""Random installed environments, and published ones: what binds where, by doctor and the loader."""
