import sys

from keras_lab_command import main

sys.exit(main())
