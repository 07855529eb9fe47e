"""A cut graph as a networkx graph, to compare the search with graph algorithms."""

from __future__ import annotations

import networkx as nx

from tflite_fuse.search.cut_graph import CutGraph


def cut_dag(cuts: CutGraph) -> nx.MultiDiGraph:
    """Cuts as nodes. Attributes are ``start`` and ``tail``, those of edges ``options``, ``fused`` and ``tail``."""
    dag = nx.MultiDiGraph(start=cuts.start, tail=cuts.tail)
    dag.add_nodes_from(range(len(cuts.into)))
    for edge in (edge for edges in cuts.into for edge in edges):
        dag.add_edge(edge.source, edge.target, options=edge.options, fused=edge.fused, tail=edge.tail)
    return dag
