"""auditwheel's own tests on this machine: the parts of `scripts/auditwheel_cases.py`."""
