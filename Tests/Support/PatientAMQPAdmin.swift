package import PushIO

extension AMQPAdmin {
  /// A test's own connection. It has no heartbeats: a test may wait for longer than two of them before it uses the connection again.
  package convenience init(patientURL url: String) throws {
    try self.init(patient: AMQPAddress(url))
  }

  package convenience init(patient address: AMQPAddress) throws {
    var address = address
    address.heartbeatSeconds = 0
    try self.init(addresses: [address], tls: nil, name: "herald test")
  }
}
