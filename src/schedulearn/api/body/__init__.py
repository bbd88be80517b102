"""What is sent: how fields, job specs and parameters are read and checked."""
