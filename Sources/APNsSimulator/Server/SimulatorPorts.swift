/// The ports of a running simulator.
public struct SimulatorPorts: Hashable, Sendable {
  /// Notifications and broadcasts.
  public var port: UInt16
  /// Channel management; nil: none.
  public var managePort: UInt16?
  /// The HTTP/1.1 control port; nil: none.
  public var controlPort: UInt16?
  /// The authority that clients must trust; nil if the simulator did not make it.
  public var authorityFile: String?
  /// The same authority as PEM text.
  public var authorityPEM: String?
}
