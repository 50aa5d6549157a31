"""The child's side: everything that runs inside a trial process. Nothing imports this package; it is started."""
