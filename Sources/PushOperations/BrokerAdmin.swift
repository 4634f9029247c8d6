import Foundation
import PushCore
import PushIO
import PushLane
import PushSettings

/// The configured broker, for commands that talk to it directly.
struct BrokerAdmin {
  let topology: Topology
  private let addresses: [AMQPAddress]
  private let tls: TLSContext?

  init(_ configuration: Configuration) throws {
    topology = Topology(configuration)
    var addresses: [AMQPAddress] = []
    for url in configuration.rabbitmq.urls { addresses.append(try AMQPAddress(url)) }
    self.addresses = addresses
    tls =
      addresses.contains(where: \.usesTLS)
      ? try TLSContext.client(
        alpn: [], caFile: configuration.rabbitmq.caFile, trustsSystem: !configuration.rabbitmq.trustsOnlyCAFile)
      : nil
  }

  /// Connects; `purpose` names the connection in the broker's lists.
  func connect(_ purpose: String, options: AMQPOptions = AMQPOptions()) throws(AMQPError) -> AMQPAdmin {
    try AMQPAdmin(
      addresses: addresses, tls: tls, name: "herald \(ProcessInfo.processInfo.hostName) \(purpose)", options: options)
  }
}
