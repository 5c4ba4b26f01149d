"""Engines that serve request streams: single runs, grids of them, curves over load and the load that they can take."""
