"""What a running program loads, by the loader's own log (`trace`)."""
