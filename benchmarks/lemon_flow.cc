// Solve a minimum-cost-flow problem in DIMACS format with LEMON's network simplex and cost scaling; print seconds
// and cost of each, without reading. Built and run by flow.py where liblemon-dev is installed.
#include <lemon/cost_scaling.h>
#include <lemon/dimacs.h>
#include <lemon/network_simplex.h>
#include <lemon/smart_graph.h>

#include <ctime>
#include <fstream>
#include <iostream>

using Graph = lemon::SmartDigraph;
using Value = long long;

template <class Solver>
void run(const char* name, const Graph& graph, const Graph::ArcMap<Value>& lower, const Graph::ArcMap<Value>& capacity,
         const Graph::ArcMap<Value>& cost, const Graph::NodeMap<Value>& supply) {
  Solver solver(graph);
  solver.lowerMap(lower).upperMap(capacity).costMap(cost).supplyMap(supply);
  const std::clock_t start = std::clock();
  solver.run();
  const double seconds = double(std::clock() - start) / CLOCKS_PER_SEC;
  std::cout << name << " " << seconds << " " << solver.template totalCost<Value>() << "\n";
}

int main(int, char** argv) {
  Graph graph;
  Graph::ArcMap<Value> lower(graph), capacity(graph), cost(graph);
  Graph::NodeMap<Value> supply(graph);
  std::ifstream file(argv[1]);
  lemon::readDimacsMin(file, graph, lower, capacity, cost, supply);
  run<lemon::NetworkSimplex<Graph, Value, Value>>("network-simplex", graph, lower, capacity, cost, supply);
  run<lemon::CostScaling<Graph, Value, Value>>("cost-scaling", graph, lower, capacity, cost, supply);
}
