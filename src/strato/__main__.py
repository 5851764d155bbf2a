"""``python -m strato``: the command line, where the script is not on the path."""

from strato.cli.main import main

if __name__ == "__main__":
    main()
