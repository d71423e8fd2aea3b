"""`trainshed`: verbs shaped like gcloud's, one module a verb group, imported when it is used."""
