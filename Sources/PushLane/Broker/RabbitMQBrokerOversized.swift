import PushCore
import PushIO

/// The dead letters of jobs that are too large: the lane never has their bytes.
extension RabbitMQBroker {
  /// The longest that one is waited for.
  private static let oversizedMilliseconds: Int64 = 5_000

  /// Publishes the dead letter of the job that is too large and waits: its bytes are here and nowhere else.
  func copyOversized() {
    guard canPublish, let (tag, bodyCount) = oversized.due, let source = consumer.connection,
      let connection = publisher.connection
    else { return }
    var metadata = MessageMetadata()
    source.copyMetadata(into: &metadata)
    describeDeadLetter(
      tag.isIsolated ? metadata.jobClass ?? tag.jobClass : tag.jobClass, "invalid",
      Limits.refusal(ofJobBytes: bodyCount),
      metadata.apnsID, metadata)
    emptyWatch?.wasDisturbed = true
    let number = source.withBody {
      connection.publish(
        to: deadLetters, channel: RabbitMQBroker.oversizedChannel, routingKey: Span(), properties: properties, body: $0)
    }
    oversized.published(number)
  }

  /// The broker did not take it: at once it would not take it either.
  func copyOversizedLater() {
    loop.schedule(afterMilliseconds: 1000) { [weak self] in self?.oversized.tryAgain() }
  }

  /// All other deliveries are behind it.
  func giveUpOversizedLater(_ tag: DeliveryTag, bodyCount: Int) {
    loop.schedule(afterMilliseconds: RabbitMQBroker.oversizedMilliseconds) { [weak self] in
      guard let self, oversized.giveUp(tag) else { return }
      addNotice(
        .warning, .publisher,
        """
        \(settings.topology.deadExchange) did not take the dead letter of a job of \(bodyCount) bytes within \
        \(RabbitMQBroker.oversizedMilliseconds / 1000) s (\(canPublish ? "is a queue of that exchange full?" : unpublishable)): \
        RabbitMQ moves the job there itself, without the reason
        """)
    }
  }

  private var unpublishable: String {
    publisher.isUp ? "RabbitMQ blocks publishing" : "there is no connection to publish on"
  }
}
