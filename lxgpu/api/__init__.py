"""HTTP: what the daemon serves. Loaded by the daemon only, since fastapi alone takes a third of a second."""
