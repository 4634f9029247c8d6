import PushIO

/// Where simulated devices register the update tokens of their Live Activities.
public struct RegistrationTarget: Sendable {
  enum Kind: Sendable {
    case webhook(WebhookAddress)
    case queue(AMQPAddress, name: String)
  }

  let kind: Kind

  /// A POST for each registration, with its JSON as the body, to `http://host:port/path`. An answer 2xx accepts it; other
  /// statuses below 500, except 408 and 429, refuse it; after any other result it is sent again.
  public static func webhook(_ url: String) throws(SimulatorError) -> RegistrationTarget {
    do throws(WebhookAddress.Refusal) {
      return RegistrationTarget(kind: .webhook(try WebhookAddress(url)))
    } catch {
      throw SimulatorError("registrations: the URL \(error.rule); expected http://host:port/path")
    }
  }

  /// A persistent message for each registration, to a queue of the RabbitMQ at `amqp://user:password@host:port/vhost`,
  /// through the default exchange and confirmed. The simulator does not declare the queue: until it exists, messages wait.
  public static func queue(_ url: String, name: String = "push.registrations") throws(SimulatorError)
    -> RegistrationTarget
  {
    let address: AMQPAddress
    do throws(AMQPError) {
      address = try AMQPAddress(url)
    } catch {
      throw SimulatorError("registrations: \(error)")
    }
    if address.usesTLS { throw SimulatorError("registrations: amqps:// is not spoken here; use amqp://") }
    guard (1...255).contains(name.utf8.count) else {
      throw SimulatorError("registrations: the queue's name has 1 to 255 bytes")
    }
    return RegistrationTarget(kind: .queue(address, name: name))
  }

  func makeSender(on loop: EventLoop) -> any RegistrationSender {
    switch kind {
    case .webhook(let address): WebhookSender(loop: loop, address: address)
    case .queue(let address, let name): QueueSender(loop: loop, address: address, queue: name)
    }
  }
}
