"""What a job is: the waist of the hourglass, values only, standard library only."""
