"""The figures of jobs over time: use of machines, scalars of trainers, and progress."""
