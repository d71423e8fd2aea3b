"""Parses and renders documents of the Cloud Storage JSON API, without I/O.

Source: the JSON API's reference, and requests of gcloud, google-cloud-storage and gcsfs.
"""
