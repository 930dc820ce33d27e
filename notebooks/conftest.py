"""The tests run the notebooks in quick mode, with few seeds; `make notebooks` runs them in full."""

import os

os.environ.setdefault("SCHEDLAB_QUICK", "1")
