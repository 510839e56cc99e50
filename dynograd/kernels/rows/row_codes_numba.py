"""Where rows lie that calls of a group take, from their codes: a port's number, and a row of it."""

from dynograd.kernels.build.compiling_numba import compiled

UNKNOWN, NOWHERE = -1, -2  # in place of a memory's number: nobody has asked, or the port's rows lie in none


@compiled
def rows_of_codes(codes, memories, first_rows, rows, marks, ports):
    """Fills `rows` with row numbers within the memory that all of them lie in.

    Args:
        memories: of each port, the number of the memory that its rows lie in.
        first_rows: where they begin there.
        marks: of each port a number, negative before and after.
        ports: is filled with the ports that occur, each once.

    Returns:
        (the memory's number, how many ports occur, whether rows lie behind one another). Where a port is UNKNOWN, UNKNOWN and all
        ports that are; where there is no such memory, NOWHERE.
    """
    result, count, alike, run = NOWHERE, 0, True, True
    unknown = False
    for place in range(codes.size):
        port = codes[place] >> 32
        memory = memories[port]
        if memory == UNKNOWN:
            if not unknown:
                for met in range(count):
                    marks[ports[met]] = -1
                unknown, count = True, 0
        elif unknown:
            continue
        if marks[port] < 0:
            marks[port] = 1
            ports[count] = port
            count += 1
        rows[place] = (codes[place] & 0xFFFFFFFF) + first_rows[port]
        if place == 0:
            result = memory
        else:
            alike = alike and memory == result
            run = run and rows[place] == rows[place - 1] + 1
    for met in range(count):
        marks[ports[met]] = -1
    if unknown:
        return UNKNOWN, count, False
    return (result if alike else NOWHERE), count, run
