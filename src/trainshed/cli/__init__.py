"""`trainshed`: commands in gcloud's style, with one module for each group, imported on use."""
