"""An extension of Model Explorer (extra ``explorer``): ``model-explorer MODEL --extensions=tflite_fuse.explorer``.

It adds a model's figures to the menu of node data. Model Explorer prescribes the module's name and place.
"""

from __future__ import annotations

from typing import Any, ClassVar

from model_explorer import (
    GetConfigEditorsResult,
    NodeDataProvider,
    NodeDataProviderFilter,
    NodeDataProviderMetadata,
    NodeDataProviderResult,
)
from model_explorer.node_data_builder import GradientItem, GraphNodeData, NodeDataResult

import tflite_fuse
from tflite_fuse.errors import TfliteFuseError
from tflite_fuse.explorer.node_data import NodeData, node_data


class MemoryProvider(NodeDataProvider):  # type: ignore[misc]
    """Bytes live, multiply-accumulates, and why an operator is in no block."""

    metadata: ClassVar[Any] = NodeDataProviderMetadata(
        id="tflite_fuse",
        name="tflite-fuse",
        description="Memory and work of every operator on a microcontroller",
        icon="memory",
        filter=NodeDataProviderFilter(modelFileExts=["tflite"]),
    )

    def get_config_editors(self, provider_id: str) -> Any:
        return GetConfigEditorsResult(configEditors=[])

    def run(self, provider_id: str, model_path: str, graph_id: str, config_values: dict[str, Any], graph: Any) -> Any:
        """Return one column for each quantity, or an error as a sentence."""
        try:
            quantities = node_data(tflite_fuse.inspect(model_path))
        except TfliteFuseError as error:
            return NodeDataProviderResult(error=str(error))
        return NodeDataProviderResult(result=[_column(data) for data in quantities.values()])


def _column(data: NodeData) -> Any:
    return GraphNodeData(
        name=data["name"],
        results={name: NodeDataResult(value=each["value"]) for name, each in data["results"].items()},
        gradient=[GradientItem(**each) for each in data.get("gradient", ())],
    )
