"""`wheelfix repair` on real wheels, compared with auditwheel."""
