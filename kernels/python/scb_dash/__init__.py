"""Dashboards: scripts whose controls re-run only what depends on them, in the kernel's namespace.

Loaded by the kernel at the first request of one (docs/dashboard.md). The parts, from below:

    units, effects            what a script's statements read, bind and may change, from their text
    objects, footprint        what they reach when they run, and what the live objects look like
    engine, plan, record      versioned replay: which of them run again, on which versions
    nodes, charts, tables …   what is shown, as the tree that the App draws
    api, controls             the module `scb`, which scripts also import as `streamlit`
    service, wire, text       requests from the broker, and what answers them
"""
