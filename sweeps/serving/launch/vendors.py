"""Vendors of accelerators as a cluster sees them: the name of the resource, and the devices of one host."""

import dataclasses

from hwspaces import HardwareEntry
from hwspaces.accelerators.prices import servers


@dataclasses.dataclass(frozen=True)
class Vendor:
    """One vendor's devices in a cluster."""

    resource: str  # name of the resource that its Kubernetes device plugin offers
    host: int  # devices of the usual host


VENDORS = {
    "NVIDIA": Vendor("nvidia.com/gpu", 8),  # NVIDIA k8s-device-plugin; HGX and DGX boards
    "AMD": Vendor("amd.com/gpu", 8),  # ROCm k8s-device-plugin; OAM boards
    "Google": Vendor("google.com/tpu", 4),  # TPUs in GKE; ct5p and tpu7x machines
    "Intel": Vendor("habana.ai/gaudi", 8),  # Intel Gaudi device plugin; HLS boards
    "AWS": Vendor("aws.amazon.com/neuron", 16),  # Neuron device plugin; trn1.32xlarge and trn2.48xlarge
}
"""Vendor -> its devices in a cluster. Sources: documentation of the device plugins and of the hosts, November 2026."""

OTHER_RESOURCES = {"Arc-Pro-B60": "gpu.intel.com/xe"}  # Intel GPU device plugin
"""Devices that their vendor's other device plugin offers."""

OTHER_HOSTS = {
    **dict.fromkeys(("TPU-v5e", "TPU-v6e"), 8),  # ct5lp-hightpu-8t, ct6e-standard-8t
    "Inferentia2": 12,  # inf2.48xlarge
}
"""Devices of one host of accelerators that are rented one by one, where it is not their vendor's usual number."""

UNKNOWN_HOST = 8
"""Devices of one host that are assumed where nothing is known of it."""


def host_devices(entry: HardwareEntry) -> int:
    """Devices of one host of the accelerator."""
    vendor = VENDORS.get(entry.vendor)
    known = OTHER_HOSTS | dict(servers())
    return known.get(entry.name, vendor.host if vendor else UNKNOWN_HOST)


def resource(name: str, vendor: str | None) -> str:
    """Name of the resource that a Kubernetes container asks for.

    Raises:
      ValueError: one line, for a vendor whose device plugin is not known here.
    """
    if name in OTHER_RESOURCES:
        return OTHER_RESOURCES[name]
    if vendor not in VENDORS:
        raise ValueError(
            f"{name}: the Kubernetes resource of {vendor or 'an unknown vendor'} is not known; known vendors: "
            f"{', '.join(VENDORS)}"
        )
    return VENDORS[vendor].resource
