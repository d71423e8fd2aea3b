"""What a job would cost and gain: the sizing of reducers and what they save."""
