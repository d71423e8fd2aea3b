"""Documents of the Cloud Storage JSON API: uploads, ranges, resources and errors, no I/O.

Source: the JSON API's reference, and requests of gcloud, google-cloud-storage and gcsfs.
"""
