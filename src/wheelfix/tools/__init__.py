"""The programs that wheelfix runs, one module each; `run` starts them all."""
