"""The order of work: check, repair, repair of a set. Only here auditwheel and patchelf run."""
