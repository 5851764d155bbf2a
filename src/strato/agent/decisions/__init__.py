"""What should change on a host, decided from one reading of it: no clock, no files, no API."""
