"""`python -m lxgpu` is the `lxgpu` command."""

from lxgpu.cli.main import main

if __name__ == "__main__":
    main()
