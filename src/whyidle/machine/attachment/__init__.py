"""A look at a process that runs already: its stacks by py-spy, its clocks by the kernel, and a
diagnosis of both."""
