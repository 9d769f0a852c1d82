"""The order of work: check, repair, repair of several wheels. Only here auditwheel and patchelf run."""
