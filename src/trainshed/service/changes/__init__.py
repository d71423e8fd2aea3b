"""What has changed since the last look, for pages that stay open: jobs, logs, nodes, studies."""
