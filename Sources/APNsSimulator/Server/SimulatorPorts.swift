/// Where a running simulator listens.
package struct SimulatorPorts: Hashable, Sendable {
  package var port: UInt16
  package var managePort: UInt16?
  package var controlPort: UInt16?
  /// The authority that clients must trust; nil where the simulator did not make it.
  package var authorityFile: String?
}
