"""What a run found and did, for people and machines: one pure function a format."""
