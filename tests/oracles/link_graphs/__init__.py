"""Random link graphs: linked with `--no-as-needed` and pruned, and linked with `--as-needed`."""
