import PushCore
import PushIO

/// The admission script's answer for one (job, target).
enum RedisAdmissionReply {
  case admission(Admission)
  case error(RedisServerError)
  /// Not an answer of ours: another program writes to our keys.
  case unreadable

  init(_ value: RedisValue, on connection: RedisConnection) {
    switch value.kind {
    case .integer where value.integer == 0:
      self = .admission(.proceed)
    case .integer where value.integer > 0:
      self = .admission(.limited(retryAfterMilliseconds: value.integer))
    case .integer:
      self = .admission(.dead(unregisteredAt: min(max(0, 0 &- value.integer), Limits.unixMillisecondsMaximum)))
    case .status:
      self = .admission(connection.withText(of: value) { Admission(status: $0) })
    case .bulk:
      let outcome = connection.withText(of: value) { RememberedOutcome(decoding: $0) }
      self = outcome.map { .admission(.duplicate($0)) } ?? .unreadable
    case .error:
      self = .error(RedisServerError(value, on: connection))
    case .null, .array:
      self = .unreadable
    }
  }
}

extension RedisServerError {
  init(_ value: RedisValue, on connection: RedisConnection) {
    self = connection.withText(of: value) { RedisServerError($0) }
  }
}

extension Admission {
  /// `superseded`, `behind`, or `claimed`, `repeated` and more: see `RedisScript.admit`.
  init(status text: Span<UInt8>) {
    var number: Int64 = 0
    for index in text.indices where UInt8(ascii: "0")...UInt8(ascii: "9") ~= text[index] {
      number = number &* 10 &+ Int64(text[index] - UInt8(ascii: "0"))
    }
    if text.count > 0, text[0] == UInt8(ascii: "c") {
      self = .claimed(retryAfterMilliseconds: number)
    } else if text.count > 0, text[0] == UInt8(ascii: "b") {
      self = .behind
    } else if text.count < 10 || text[0] != UInt8(ascii: "r") {
      self = .superseded
    } else if text[9] == UInt8(ascii: "s") {
      self = .repeated(.superseded)
    } else if text[9] == UInt8(ascii: "-") {
      self = .repeated(.dead(unregisteredAt: min(max(0, number), Limits.unixMillisecondsMaximum)))
    } else {
      self = (number > 0 ? Admission.limited(retryAfterMilliseconds: number) : .proceed).asRepeated
    }
  }
}
