#include "graph/ir.h"
#include "graph/printer.h"
#include "graph/verify.h"

namespace postlude::inline v0 {

Graph::Graph(std::shared_ptr<const GraphData> data) : data_(std::move(data)) {}

const std::string& Graph::name() const { return data_->name; }

std::vector<Graph::Operand> Graph::operands() const {
  std::vector<Operand> operands;
  for (const OperandDecl& operand : data_->operands) operands.push_back({operand.name, operand.axes, operand.dtype});
  return operands;
}

std::vector<Graph::Output> Graph::outputs() const {
  const Inference inference = verify(*data_);
  std::vector<Output> outputs;
  for (const OutputDecl& output : data_->outputs)
    outputs.push_back(
        {output.name, inference.values[static_cast<std::size_t>(output.value)].axes & tile_axes, output.dtype});
  return outputs;
}

std::string Graph::print() const { return postlude::print(*data_); }

}  // namespace postlude::inline v0
