"""A vsock device for QEMU in user space, so that a guest is reached where the host's kernel has no vhost_vsock.

A process of its own beside each QEMU speaks vhost-user to it, and on a unix socket the convention that Firecracker
began: a host program writes `CONNECT <port>` and a newline, and reads `OK <number>`; what the guest connects to goes
to the socket whose path ends in `_<port>`.
"""
