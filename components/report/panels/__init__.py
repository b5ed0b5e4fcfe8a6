"""The parts of the page: one panel is one module and one template. `panel` says how to add one."""
