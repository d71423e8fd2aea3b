"""Code that only the command line uses: files of jobs, local runs, reports, the doctor."""
