/// The settings from a queue's declaration.
struct RabbitQueueSettings {
  enum Kind {
    case quorum, classic, stream

    var name: String {
      switch self {
      case .quorum: "quorum"
      case .classic: "classic"
      case .stream: "stream"
      }
    }

    /// Supported arguments, in the order in which a redeclaration is compared.
    var argumentNames: [String] {
      switch self {
      case .quorum:
        [
          "x-dead-letter-exchange", "x-dead-letter-routing-key", "x-dead-letter-strategy", "x-expires", "x-max-length",
          "x-max-length-bytes", "x-max-in-memory-length", "x-max-in-memory-bytes", "x-overflow",
          "x-single-active-consumer", "x-queue-type", "x-quorum-initial-group-size", "x-delivery-limit",
          "x-message-ttl", "x-queue-leader-locator",
        ]
      case .classic:
        [
          "x-expires", "x-message-ttl", "x-dead-letter-exchange", "x-dead-letter-routing-key", "x-max-length",
          "x-max-length-bytes", "x-max-priority", "x-overflow", "x-queue-mode", "x-queue-version",
          "x-single-active-consumer", "x-queue-type", "x-queue-master-locator",
        ]
      case .stream:
        [
          "x-max-length-bytes", "x-queue-type", "x-max-age", "x-stream-max-segment-size-bytes",
          "x-initial-cluster-size", "x-queue-leader-locator",
        ]
      }
    }
  }

  enum Overflow: String {
    case dropHead = "drop-head"
    case rejectPublish = "reject-publish"
  }

  let arguments: RabbitTable
  let isDurable: Bool
  let isAutoDelete: Bool
  let kind: Kind
  let deliveryLimit: Int?
  let deadLetterExchange: [UInt8]?
  let deadLetterRoutingKey: [UInt8]?
  /// Dead letters stay here until the next queue has confirmed them.
  let keepsDeadLetters: Bool
  let lifetime: Int64?
  let overflow: Overflow
  let countMaximum: Int?
  let bytesMaximum: Int?
  let hasSingleActiveConsumer: Bool

  private static let nanosecondsPerMillisecond: Int64 = 1_000_000

  init(_ arguments: RabbitTable, isDurable: Bool, isAutoDelete: Bool, name: String) throws(RabbitError) {
    self.arguments = arguments
    self.isDurable = isDurable
    self.isAutoDelete = isAutoDelete
    let type: Kind
    switch arguments["x-queue-type"] {
    case nil: type = .classic
    case .text(let text) where text.elementsEqual("classic".utf8): type = .classic
    case .text(let text) where text.elementsEqual("quorum".utf8): type = .quorum
    case .text(let text) where text.elementsEqual("stream".utf8): type = .stream
    case .some(let value):
      throw RabbitError(
        .preconditionFailed,
        "invalid arg 'x-queue-type' for \(name): \"unsupported queue type '\(value.printed)'\"")
    }
    kind = type
    let known = type.argumentNames
    for field in arguments.fields {
      let argument = String(decoding: field.name, as: UTF8.self)
      let isKnownElsewhere = [Kind.quorum, .classic, .stream].contains { $0.argumentNames.contains(argument) }
      if isKnownElsewhere, !known.contains(argument) {
        throw RabbitError(
          .preconditionFailed, "invalid arg '\(argument)' for \(name) of queue type rabbit_\(type.name)_queue")
      }
    }
    if type != .classic, !isDurable || isAutoDelete {
      let property = isDurable ? "auto-delete" : "non-durable"
      throw RabbitError(.preconditionFailed, "invalid property '\(property)' for \(name)")
    }
    deliveryLimit = try RabbitQueueSettings.number("x-delivery-limit", arguments, name)
    deadLetterExchange = try RabbitQueueSettings.text("x-dead-letter-exchange", arguments, name)
    deadLetterRoutingKey = try RabbitQueueSettings.text("x-dead-letter-routing-key", arguments, name)
    if deadLetterRoutingKey != nil, deadLetterExchange == nil {
      throw RabbitError(
        .preconditionFailed, "invalid arg 'x-dead-letter-routing-key' for \(name): routing_key_but_no_dlx_defined")
    }
    lifetime = try RabbitQueueSettings.number("x-message-ttl", arguments, name).map {
      Int64($0) * RabbitQueueSettings.nanosecondsPerMillisecond
    }
    switch try RabbitQueueSettings.text("x-overflow", arguments, name) {
    case nil: overflow = .dropHead
    case .some(let text):
      guard let known = Overflow(rawValue: String(decoding: text, as: UTF8.self)) else {
        throw RabbitError(.preconditionFailed, "invalid arg 'x-overflow' for \(name): invalid_overflow")
      }
      overflow = known
    }
    countMaximum = try RabbitQueueSettings.number("x-max-length", arguments, name)
    bytesMaximum = try RabbitQueueSettings.number("x-max-length-bytes", arguments, name)
    switch arguments["x-single-active-consumer"] {
    case nil: hasSingleActiveConsumer = false
    case .flag(let flag): hasSingleActiveConsumer = flag
    case .some(let value):
      throw RabbitError(
        .preconditionFailed,
        "invalid arg 'x-single-active-consumer' for \(name): {unacceptable_type,\(value.kindName)}")
    }
    let strategy = try RabbitQueueSettings.text("x-dead-letter-strategy", arguments, name)
    // At-least-once requires `reject-publish`; otherwise the server falls back to at-most-once.
    keepsDeadLetters =
      type == .quorum && overflow == .rejectPublish && deadLetterExchange != nil
      && strategy?.elementsEqual("at-least-once".utf8) == true
  }

  private static func number(_ argument: String, _ table: RabbitTable, _ name: String) throws(RabbitError) -> Int? {
    guard let value = table[argument] else { return nil }
    guard let number = value.number else {
      throw RabbitError(
        .preconditionFailed, "invalid arg '\(argument)' for \(name): \"expected integer, got \(value.kindName)\"")
    }
    guard number >= 0 else {
      throw RabbitError(.preconditionFailed, "invalid arg '\(argument)' for \(name): {value_negative,\(number)}")
    }
    return Int(number)
  }

  private static func text(_ argument: String, _ table: RabbitTable, _ name: String) throws(RabbitError) -> [UInt8]? {
    guard let value = table[argument] else { return nil }
    guard let text = value.text else {
      throw RabbitError(
        .preconditionFailed, "invalid arg '\(argument)' for \(name): {unacceptable_type,\(value.kindName)}")
    }
    return text
  }

  // MARK: - Redeclaration

  /// Throws if a declaration differs from the existing queue.
  func compare(_ other: RabbitTable, isDurable: Bool, isAutoDelete: Bool, name: String) throws(RabbitError) {
    try RabbitQueueSettings.compare("durable", .flag(isDurable), .flag(self.isDurable), name)
    try RabbitQueueSettings.compare("auto_delete", .flag(isAutoDelete), .flag(self.isAutoDelete), name)
    for argument in kind.argumentNames {
      try RabbitQueueSettings.compare(argument, other[argument], arguments[argument], name)
    }
  }

  /// Compares one argument; a missing value differs from a present one.
  static func compare(
    _ argument: String, _ received: RabbitValue?, _ current: RabbitValue?, _ name: String
  ) throws(RabbitError) {
    let texts: (received: String, current: String)
    switch (received, current) {
    case (nil, nil): return
    case (let received?, let current?):
      if received == current { return }
      if let one = received.number, let other = current.number, one == other { return }
      texts = ("'\(received.printed)'", "'\(current.printed)'")
    case (nil, .some(let value)):
      if argument == "x-queue-type", value == .text("classic") { return }
      texts = ("none", described(value))
    case (.some(let value), nil):
      if argument == "x-queue-type", value == .text("classic") { return }
      texts = (described(value), "none")
    }
    throw RabbitError(
      .preconditionFailed,
      "inequivalent arg '\(argument)' for \(name): received \(texts.received) but current is \(texts.current)")
  }

  private static func described(_ value: RabbitValue) -> String {
    "the value '\(value.printed)' of type '\(value.kindName)'"
  }
}
