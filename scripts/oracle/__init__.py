"""A model of symbol binding in a whole process, compared with the real loaders by the scripts."""
