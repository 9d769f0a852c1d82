"""The command line: options, configuration files, output streams and exit codes."""
