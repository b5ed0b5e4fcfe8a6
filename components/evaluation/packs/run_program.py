"""What sandbox.py starts: bounds this process, then runs the program in it. Imports nothing of the project.

Usage: run_program.py PROGRAM MEMORY_BYTES FILE_BYTES PROCESSES
"""

import resource
import runpy
import sys

if __name__ == "__main__":
    program, memory, file_size, processes = sys.argv[1], *map(int, sys.argv[2:5])
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_FSIZE, (file_size, file_size))
    resource.setrlimit(resource.RLIMIT_NPROC, (processes, processes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.argv = [program]
    runpy.run_path(program, run_name="program")  # not __main__: an answer may end in an example of its use
