"""Migrations of databases from earlier releases; run when a store is opened."""
