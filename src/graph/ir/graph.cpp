#include "graph/ir/ir.h"
#include "graph/ir/verify.h"
#include "graph/text/printer.h"

namespace postlude::inline v0 {

Graph::Graph(std::shared_ptr<const GraphData> data) : data_(std::move(data)) {}

const GraphData& Graph::data() const {
  if (!data_)
    throw Error(ErrorCode::usage, "the graph is empty", "GraphBuilder::finish(), parse() and parse_file() make one.");
  return *data_;
}

const std::string& Graph::name() const { return data().name; }

std::vector<Graph::Operand> Graph::operands() const {
  std::vector<Operand> operands;
  for (const OperandDecl& operand : data().operands) operands.push_back({operand.name, operand.axes, operand.dtype});
  return operands;
}

std::vector<Graph::Output> Graph::outputs() const {
  const Inference inference = verify(data());
  std::vector<Output> outputs;
  for (const OutputDecl& output : data().outputs)
    outputs.push_back(
        {output.name, inference.values[static_cast<std::size_t>(output.value)].axes & tile_axes, output.dtype});
  return outputs;
}

std::string Graph::print() const { return postlude::print(data()); }

}  // namespace postlude::inline v0
