"""One family of rules a file; ``trainshed.admission.check`` lists them in order."""
