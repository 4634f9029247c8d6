import Testing

@testable import PushIO

struct AMQPAddressTests {
  @Test func everything() throws {
    let address = try AMQPAddress("amqp://us%65r:p%40ss%2F@broker.example:5673/%2Fdeep?heartbeat=7")
    #expect(address.user == "user")
    #expect(address.password == "p@ss/")
    #expect(address.host == "broker.example")
    #expect(address.port == 5673)
    #expect(address.virtualHost == "/deep")
    #expect(address.heartbeatSeconds == 7)
    #expect(!address.usesTLS)
    #expect(!address.description.contains("p@ss"))
    #expect(!address.description.contains("%40"))
  }

  @Test(arguments: ["amqp://h", "amqp://h/", "amqp://guest:guest@h:5672/", "amqp://h/%2F", "amqp://h/%2f"])
  func theUsualVirtualHost(url: String) throws {
    let address = try AMQPAddress(url)
    #expect(address.virtualHost == "/")
    #expect(address.host == "h")
    #expect(address.port == 5672)
    #expect(address.user == "guest")
    #expect(address.password == "guest")
  }

  @Test func tlsAndNumericAddresses() throws {
    let address = try AMQPAddress("amqps://a:b@[::1]/v")
    #expect(address.usesTLS)
    #expect(address.host == "::1")
    #expect(address.port == 5671)
    #expect(address.hostAndPort == "[::1]:5671")
    #expect(try AMQPAddress("amqp://[::1]:99").port == 99)
    #expect(try AMQPAddress("amqp://a@h").password == "")
    #expect(try AMQPAddress("AMQP://h") == AMQPAddress("amqp://h"))
    #expect(try AMQPAddress("AmqpS://h:1").usesTLS)
  }

  @Test(arguments: [
    "http://h", "h:5672", "amqp://h:0", "amqp://h:70000", "amqp://h:x", "amqp://%zz@h", "amqp://secret:sec%ret@h",
    "amqp://h?heartbeat=x", "amqp://h?unknown=1", "amqp://[::1", "amqp://[::1]x", "amqp://%ff@h",
    "amqp://h%00x", "amqp://u%00v:p@h", "amqp://u:p%00@h", "amqp://h/v%00",
    "amqp://u:\(String(repeating: "p", count: 4097))@h",
  ])
  func refused(url: String) {
    #expect {
      try AMQPAddress(url)
    } throws: { error in
      guard let error = error as? AMQPError, case .badURL = error else { return false }
      return !error.description.contains("sec%ret")
    }
  }

  @Test func mismatchesAreRead() {
    let text =
      "PRECONDITION_FAILED - inequivalent arg 'type' for exchange 'push.jobs' in vhost '/': received 'direct' "
      + "but current is 'fanout'"
    let mismatch = AMQPMismatch(replyText: text)
    #expect(mismatch?.kind == "exchange")
    #expect(mismatch?.name == "push.jobs")
    #expect(mismatch?.argument == "type")
    #expect(mismatch?.wanted == "'direct'")
    #expect(mismatch?.existing == "'fanout'")
    #expect(AMQPMismatch(replyText: "PRECONDITION_FAILED - unknown delivery tag 7") == nil)
    #expect(AMQPMismatch(replyText: "") == nil)
  }
}
