"""The table of commands, and the help page made from it.

Nothing is imported here, so that `lxgpu --help` costs hardly more than starting Python: click alone takes four
times as long. `cli/main.py` loads a command's module only when the command is called.
"""

SECTIONS: tuple[tuple[str, tuple[tuple[str, str, str], ...]], ...] = (
    (
        "Containers",
        (
            ("create", "create:create", "Make a person's container: cards, limits, keys, SSH login tested"),
            ("delete", "ending:delete", "Take a container away; its home is kept for a while"),
            ("start", "power:start", "Start a container"),
            ("stop", "power:stop", "Shut a container down; it keeps its cards"),
            ("restart", "power:restart", "Shut a container down and start it again"),
            ("rebuild", "reshape:rebuild", "Give a container a fresh system; home, keys and cards stay"),
            ("resize", "reshape:resize", "Change CPU, memory, disk or process limits"),
            ("rename", "reshape:rename", "Give a container another name"),
            ("snapshot", "snapshots:snapshot", "Keep the present state of a container"),
            ("restore", "snapshots:restore", "Bring a container back to a snapshot"),
            ("suspend", "ending:suspend", "Close a container: cards given back, no login, data kept"),
            ("resume", "ending:resume", "Open a suspended container again"),
            ("adopt", "adopt:adopt", "Take over a container that was made by hand"),
        ),
    ),
    (
        "GPUs",
        (
            ("gpus", "listing:gpus", "Who holds which card until when, and what is free"),
            ("attach", "lending:attach", "Lend free cards to a running container"),
            ("release", "lending:release", "Give cards back"),
            ("reserve", "reserve:reserve", "Cards for a time: at once, booked ahead, or when it is one's turn"),
            ("reservations", "reservations:reservations", "What is booked, who waits, as a list or a calendar"),
            ("reservation", "reservations:reservation", "Look at one reservation, change it, give it up"),
            ("extend", "longer:extend", "Cards for longer"),
            ("keep", "longer:keep", "Leave idle cards to their holder for a while"),
            ("gpu", "gpu:gpu", "Look at one card, close it, open it again"),
        ),
    ),
    (
        "Looking",
        (
            ("ls", "listing:ls", "List containers"),
            ("show", "listing:show", "Everything about one container"),
            ("ps", "ps:ps", "The processes on the cards: whose, how big, what they run"),
            ("top", "top:top", "Watch the cards and who uses them"),
            ("status", "listing:status", "The whole host on one screen"),
            ("history", "history:history", "Who did what, when, and by which rule"),
            ("report", "report:report", "Who held, used and wasted cards, who waited, who was refused"),
            ("why", "history:why", "Explain the state of a container or a card"),
        ),
    ),
    (
        "Access",
        (
            ("ssh", "access:ssh", "Log in to a container"),
            ("ssh-config", "access:ssh_config", "Print the lines for ~/.ssh/config and known_hosts"),
            ("run", "run:run", "A program in a throw-away container: for CI"),
            ("exec", "access:exec_", "Run a program inside as root"),
            ("keys", "keys:keys", "A person's public SSH keys"),
        ),
    ),
    (
        "Administration",
        (
            ("policy", "policy:policy", "Check and show who may have what"),
            ("simulate", "simulate:simulate", "Try a policy on a trace or the past, against other rules"),
            ("config", "config:config", "Show the settings and where each comes from"),
            ("host", "host:host", "The hosts of the settings, and whether they answer"),
            ("image", "image:image", "Base images: build, import, list, prune"),
            ("inventory", "inventory:inventory", "Verify, rebuild, export, back up what lxgpu remembers"),
            ("web", "web:web", "The page in a browser, and one-time links to it"),
            ("daemon", "daemon:daemon", "The program that watches: run, status, pause, resume"),
            ("doctor", "doctor:doctor", "Look for what is wrong with the host, with a remedy each"),
            ("lab", "lab:lab", "A private real LXD with pretend GPUs, to try everything"),
        ),
    ),
    (
        "Help",
        (
            ("explain", "explain:explain", "Explain an error code"),
            ("completion", "completion:completion", "Print the completion script for bash, zsh or fish"),
        ),
    ),
)
"""Section → (command, `module:attribute` below lxgpu.cli, one line of help)."""

HIDDEN: tuple[tuple[str, str], ...] = (("probe", "probe:probe"),)
"""Commands that lxgpu itself calls, and no page lists: (command, `module:attribute` below lxgpu.cli)."""

OPTIONS: tuple[tuple[str, str], ...] = (
    ("-v, --verbose", "Say more on stderr; twice for everything"),
    ("-q, --quiet", "No progress and no notes; errors remain"),
    ("--color auto|always|never", "Colour; NO_COLOR is respected"),
    ("--config FILE", "Also --policy, --profiles, --templates, --state-dir"),
    ("--set KEY=VALUE", "A setting for this run (lxgpu config show)"),
    ("--debug", "Show the traceback of a fault in lxgpu itself"),
    ("--version", "Print the version"),
    ("-h, --help", "This page; after a command, that command's page"),
)

HABITS = {
    "add": "create",
    "detach": "release",
    "info": "show",
    "list": "ls",
    "launch": "create",
    "log": "history",
    "login": "ssh",
    "nodes": "gpus",
    "remove": "delete",
    "return": "release",
    "rm": "delete",
    "shell": "ssh",
}
"""What people type out of habit, and what it is called here."""


def names() -> list[str]:
    """The commands in the order of the help page."""
    return [name for _, commands in SECTIONS for name, _, _ in commands]


def place_of(name: str) -> tuple[str, str] | None:
    """Returns the module and the attribute that hold a command; None if there is no such command."""
    places = {command: place for _, entries in SECTIONS for command, place, _ in entries} | dict(HIDDEN)
    if name not in places:
        return None
    module, _, attribute = places[name].partition(":")
    return f"lxgpu.cli.{module}", attribute


def help_page() -> str:
    """Returns the text of `lxgpu --help`."""
    lines = [
        "Usage: lxgpu [OPTIONS] COMMAND [ARGS]...",
        "",
        "  Shared GPU servers where everybody keeps an own machine.",
    ]
    for title, commands in SECTIONS:
        lines += ["", f"{title}:", *(f"  {name:<13}{text}" for name, _, text in commands)]
    lines += ["", "Options:", *(f"  {option:<27}{text}" for option, text in OPTIONS)]
    lines += ["", "`lxgpu COMMAND --help` says more. Try it all without a GPU: `lxgpu lab up`."]
    return "\n".join(lines)
