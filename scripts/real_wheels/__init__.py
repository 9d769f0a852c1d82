"""`wheelfix repair` on real wheels, beside auditwheel."""
