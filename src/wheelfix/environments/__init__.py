"""Installed distributions that meet: read, judged and compared (`doctor`)."""
