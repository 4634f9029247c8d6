/// Where a running simulator listens.
public struct SimulatorPorts: Hashable, Sendable {
  public var port: UInt16
  public var managePort: UInt16?
  public var controlPort: UInt16?
  /// The authority that clients must trust; nil where the simulator did not make it.
  public var authorityFile: String?
  /// The same authority as PEM text.
  public var authorityPEM: String?
}
