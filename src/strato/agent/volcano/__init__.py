"""What Volcano's own node agent does, under the same names: offline pods beside online ones, resources lent to them.

The ConfigMap ``volcano-agent-configuration`` and the node's labels say what is on; annotations of pods say whom it
concerns. Decisions are pure, a file each; `colocation` reads, asks them, and acts.
"""
