"""`python -m lxgpu` is the `lxgpu` command."""


def start() -> None:
    """The `lxgpu` command; an interrupt while it is loaded ends it as one later does."""
    try:
        from lxgpu.cli.main import main  # noqa: PLC0415 -- in here
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    main()


if __name__ == "__main__":
    start()
