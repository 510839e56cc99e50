"""Plans for several sizes of a function's arguments: found from recorded ones, used at sizes between these."""
