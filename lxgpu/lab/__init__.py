"""A real LXD with pretend GPUs, to rehearse and to test.

lab = up(LabSpec(name="mine", gpus=2))
lab.env()       # variables that point lxgpu, lxc and pynvml at it
down("mine")
"""

from lxgpu.lab.bring_up import up
from lxgpu.lab.record import Lab
from lxgpu.lab.spec import Card, LabSpec
from lxgpu.lab.teardown import down

__all__ = ["Card", "Lab", "LabSpec", "down", "up"]
