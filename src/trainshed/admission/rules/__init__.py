"""The rules, one family in each file; ``trainshed.admission.check`` lists them in order."""
