"""What several test files share beside fixtures."""

from pathlib import Path

import schedlab as sl

VECTORS = Path(__file__).parent / "vectors"

SMALL = sl.Hackbench(groups=2, loops=20, senders=5, receivers=5)
"""Twenty tasks and 1,000 messages: milliseconds to simulate, and every CPU of a small machine is busy."""
