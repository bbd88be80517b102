"""Workers as containers of Docker Engines, here or on other machines."""
