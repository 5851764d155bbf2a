"""The stock controllers the embedded cluster needs; a real cluster brings its own."""
