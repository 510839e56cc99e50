"""`torch` is dynograd here: importing it opens the door that `import dynograd.as_torch` opens, which puts another module in this one's place."""

__dynograd__ = True

import dynograd.as_torch
