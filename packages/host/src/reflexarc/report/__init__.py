"""Reports of runs, made from the journal and the run's folder: HTML for people, JUnit XML for CI systems."""
