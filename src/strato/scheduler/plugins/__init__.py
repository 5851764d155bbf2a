"""The built-in plugins, one file each; other files here hold rules and data that one or more plugins use."""
