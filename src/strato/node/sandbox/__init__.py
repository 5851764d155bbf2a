"""The sandbox node: this machine as a node, its pods as processes in namespaces.

`linux`, `netlink`, `rootfs`, `logfiles`, `supervisor` and `spawner` make up the helper process that starts containers
(standard library only); the other files are the node.
"""
