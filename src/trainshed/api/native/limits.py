"""The largest numbers that the columns of the database hold."""

#: The largest number in a 64-bit column.
SEQ_MAX = (1 << 63) - 1
#: The largest number in a 32-bit column.
ATTEMPT_MAX = (1 << 31) - 1
