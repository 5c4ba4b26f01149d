"""A service of several engines over time: routers, queues, pools, turns of conversations and their prefixes."""
