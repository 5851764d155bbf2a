"""The functions of Volcano's node agent, under the same names: offline pods beside online ones, on lent resources.

The ConfigMap ``volcano-agent-configuration`` and the node's labels enable functions; annotations of pods choose the
pods. Decisions are pure functions, one file each; `colocation` measures, calls them, and acts.
"""
