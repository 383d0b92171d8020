"""The seams: what the services ask of the world outside, in the words of the model.

Each port has a real driver and a fake, and both pass the same contract tests. No driver lets an
object or an exception of its library out: answers are model values, errors are `LxgpuError`.
"""

from lxgpu.ports.engine import Change, Engine, Image, Network, Pool, Ran, Server
from lxgpu.ports.host import Holders, HostProbe, Process
from lxgpu.ports.inventory import Inventory, Tx, VersionMovedError
from lxgpu.ports.kernel_log import KernelLog, Xid
from lxgpu.ports.relay import Call, Relay, Streams
from lxgpu.ports.slicer import Slicer
from lxgpu.ports.small import Board, Brake, Clock, Locks, Login, Notifier, Parker, Progress, Registries, Texts

__all__ = [
    "Board",
    "Brake",
    "Call",
    "Change",
    "Clock",
    "Engine",
    "Holders",
    "HostProbe",
    "Image",
    "Inventory",
    "KernelLog",
    "Locks",
    "Login",
    "Network",
    "Notifier",
    "Parker",
    "Pool",
    "Process",
    "Progress",
    "Ran",
    "Registries",
    "Relay",
    "Server",
    "Slicer",
    "Streams",
    "Texts",
    "Tx",
    "VersionMovedError",
    "Xid",
]
