"""`python -m tflite_export`: see `cli`."""

import sys

from tflite_export.cli import main

if __name__ == "__main__":
    sys.exit(main())
