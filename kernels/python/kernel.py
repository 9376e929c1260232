"""The Python kernel."""
