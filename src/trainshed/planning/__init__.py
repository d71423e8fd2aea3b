"""What a job would cost and gain: the sizing of reducers (R17) and what they save."""
