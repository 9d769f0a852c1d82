"""Programs to run, temporary files, time limits and worker pools; knows nothing of wheels."""
