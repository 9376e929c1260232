"""The parts of the Python kernel. A package of its own name, so that none of them can be mistaken
for a module of the code that runs in it."""
