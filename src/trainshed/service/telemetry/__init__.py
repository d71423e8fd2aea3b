"""Counters, histograms and pages for Prometheus (decision 0107)."""
