"""Cloud Logging's entries:list, as far as gcloud's stream-logs speaks it (gcloud.md 7)."""
