import PushCore

/// One fault: which requests it matches, and what it does to them. Its text is a line of `name=value` words:
/// `share=0.1,status=503,reason=ServiceUnavailable`. `FaultRule.manual` lists the words.
package struct FaultRule: Hashable, Sendable {
  /// The line it was read from.
  package let text: String
  /// Hexadecimal prefix of the device token; nil: any token.
  package var tokenPrefix: String?
  /// The whole topic.
  package var topic: String?
  package var pushType: String?
  /// The share of the matching requests that is affected, 0–1.
  package var share = 1.0
  /// The number of a connection's first requests that are not affected.
  package var after = 0
  /// The number of affected requests after which the fault is used up.
  package var times: Int?
  /// Only the first tries of a notification (by `apns-id`, or by token if there is none).
  package var attempts: Int?

  /// Only this connection, by its number in the ledger; nil: any.
  package var connectionNumber: Int?

  package var effect = FaultEffect()
  package var connection = ConnectionFaults()

  /// No line is longer than a terminal of 80 columns.
  package static let manual = """
    Which requests (default: all):
      prefix=HEX             to device tokens that begin so
      topic=T                with this apns-topic
      type=T                 with this apns-push-type
      share=0.1              this share of them, at random
      after=N                not the first N of a connection
      times=N                at most N in all
      attempts=N             only the first N tries of a notification
      connection=N           only of this connection, by its number in the ledger
    What happens to them:
      latency=50             milliseconds before the answer
      latency=20-200         the same, uniform between the two
      latency=exp:50         the same, exponential with this mean
      status=503             this answer
      reason=TEXT            with status or goaway: the reason
      timestamp=MS           with status: the timestamp, Unix milliseconds
      body=missing           the answer has no body
      body=split:N           its body comes in DATA frames of N bytes
      body=raw:TEXT          its body is this text
      reset=CODE             RST_STREAM with this error code; not processed
      drop                   the connection breaks; not processed
      silence                no answer; not processed
      processed              with reset, drop or silence: accepted first
      goaway=this            GOAWAY: this request is the last one processed
      goaway=previous        GOAWAY: the request before it is the last one
      goaway=all             GOAWAY: all that come are still processed
      goaway=ID              GOAWAY with this last stream id
      code=N                 with goaway: the error code
      streams=1000/1/1000    SETTINGS with these stream limits in turn
      every=MS               behind streams: milliseconds between them; else 100
    What happens after the answer 200, only to Live Activity pushes:
      lost                   the device never sees the push
      reorder                it comes after the next one to that token or channel
      register=MS            the started device registers its update token after MS
      register=never         the started device never registers one
      swipe=MS               the user swipes the started activity away after MS
      renew=MS               the device replaces its update token after MS
    What happens to whole connections while the fault is set:
      withhold-window        no WINDOW_UPDATE
      no-ping-ack            PINGs stay unanswered
      handshake=MS           the TLS handshake begins after MS
      handshake=fail         the TLS handshake fails
      refuse                 the port is closed
    """

  /// Reads a line.
  package init(_ text: String) throws(FaultSyntaxError) {
    self.text = text
    var status: Int?
    var reason: String?
    var timestamp: Int64?
    var code: UInt32?
    for word in text.split(separator: ",", omittingEmptySubsequences: true) {
      let parts = word.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
      let name = String(parts[0]).trimmed
      let value = parts.count == 2 ? String(parts[1]).trimmed : nil
      switch (name, value) {
      case ("prefix", let value?):
        guard !value.isEmpty, value.utf8.allSatisfy({ Hex.value($0) != nil }) else {
          throw FaultSyntaxError(word: String(word), rule: "hexadecimal digits")
        }
        tokenPrefix = value.lowercased()
      case ("topic", let value?): topic = value
      case ("type", let value?): pushType = value
      case ("share", let value?):
        guard let share = Double(value), (0...1).contains(share) else {
          throw FaultSyntaxError(word: String(word), rule: "a number from 0 to 1")
        }
        self.share = share
      case ("after", let value?): after = try FaultRule.count(value, word)
      case ("times", let value?): times = try FaultRule.count(value, word)
      case ("attempts", let value?): attempts = try FaultRule.count(value, word)
      case ("connection", let value?): connectionNumber = try FaultRule.count(value, word)
      case ("latency", let value?): effect.latency = try FaultRule.latency(value, word)
      case ("status", let value?):
        guard let number = Int(value), (200...599).contains(number) else {
          throw FaultSyntaxError(word: String(word), rule: "a status from 200 to 599")
        }
        status = number
      case ("reason", let value?): reason = value
      case ("timestamp", let value?): timestamp = Int64(try FaultRule.count(value, word))
      case ("body", let value?): effect.body = try FaultRule.body(value, word)
      case ("reset", let value?): effect.ending = .reset(try FaultRule.code(value, word))
      case ("drop", nil): effect.ending = .drop
      case ("silence", nil): effect.ending = .silence
      case ("processed", nil): effect.isProcessed = true
      case ("goaway", let value?): effect.goAway = FaultEffect.GoAway(last: try FaultRule.lastStream(value, word))
      case ("code", let value?): code = try FaultRule.code(value, word)
      case ("streams", let value?):
        var values: [Int] = []
        for part in value.split(separator: "/") { values.append(try FaultRule.count(String(part), word)) }
        guard !values.isEmpty else { throw FaultSyntaxError(word: String(word), rule: "limits such as 1000/1/1000") }
        effect.streamLimits = FaultEffect.StreamLimits(values: values)
      case ("every", let value?):
        guard effect.streamLimits != nil else {
          throw FaultSyntaxError(word: String(word), rule: "streams before every")
        }
        effect.streamLimits?.intervalMilliseconds = Int64(try FaultRule.count(value, word))
      case ("lost", nil): effect.activity.isLost = true
      case ("reorder", nil): effect.activity.isReordered = true
      case ("register", "never"): effect.activity.registration = .never
      case ("register", let value?):
        effect.activity.registration = .after(milliseconds: Int64(try FaultRule.count(value, word)))
      case ("swipe", let value?): effect.activity.swipeMilliseconds = Int64(try FaultRule.count(value, word))
      case ("renew", let value?): effect.activity.renewMilliseconds = Int64(try FaultRule.count(value, word))
      case ("withhold-window", nil): connection.withholdsWindowUpdates = true
      case ("no-ping-ack", nil): connection.ignoresPings = true
      case ("handshake", "fail"): connection.failsHandshakes = true
      case ("handshake", let value?): connection.handshakeDelayMilliseconds = Int64(try FaultRule.count(value, word))
      case ("refuse", nil): connection.refusesConnections = true
      default:
        throw FaultSyntaxError(word: String(word), rule: "one of the words of the manual")
      }
    }
    if effect.goAway != nil {
      effect.goAway?.reason = reason
      effect.goAway?.code = code ?? 0
    }
    if let status {
      effect.answer = FaultEffect.Answer(status: status, reason: reason, timestamp: timestamp)
    } else if timestamp != nil || (reason != nil && effect.goAway == nil) {
      throw FaultSyntaxError(word: text, rule: "a status, or goaway, for the reason")
    }
    if !effect.activity.isEmpty, pushType == nil { pushType = "liveactivity" }
    if effect.isEmpty && connection.isEmpty { throw FaultSyntaxError(word: text, rule: "something to happen") }
  }

  // MARK: - Values

  /// Large enough for every use, small enough for every sum.
  private static let countMaximum = 1_000_000_000_000_000

  private static func count(_ text: String, _ word: Substring) throws(FaultSyntaxError) -> Int {
    guard let number = Int(text), (0...countMaximum).contains(number) else {
      throw FaultSyntaxError(word: String(word), rule: "a whole number")
    }
    return number
  }

  private static func code(_ text: String, _ word: Substring) throws(FaultSyntaxError) -> UInt32 {
    guard let number = UInt32(text) else { throw FaultSyntaxError(word: String(word), rule: "an HTTP/2 error code") }
    return number
  }

  private static func latency(_ text: String, _ word: Substring) throws(FaultSyntaxError) -> FaultEffect.Latency {
    if text.hasPrefix("exp:") {
      return .exponential(meanMilliseconds: Int64(try count(String(text.dropFirst(4)), word)))
    }
    let ends = text.split(separator: "-")
    if ends.count == 2 {
      let low = Int64(try count(String(ends[0]), word))
      let high = Int64(try count(String(ends[1]), word))
      guard low <= high else { throw FaultSyntaxError(word: String(word), rule: "the smaller number first") }
      return .uniform(low, high)
    }
    return .fixed(milliseconds: Int64(try count(text, word)))
  }

  private static func body(_ text: String, _ word: Substring) throws(FaultSyntaxError) -> FaultEffect.BodyForm {
    if text == "missing" { return .missing }
    if text == "whole" { return .whole }
    if text.hasPrefix("split:") { return .split(max(1, try count(String(text.dropFirst(6)), word))) }
    if text.hasPrefix("raw:") { return .raw(String(text.dropFirst(4))) }
    throw FaultSyntaxError(word: String(word), rule: "missing, split:N or raw:TEXT")
  }

  private static func lastStream(_ text: String, _ word: Substring) throws(FaultSyntaxError) -> FaultEffect.LastStream {
    switch text {
    case "this": return .this
    case "previous": return .previous
    case "all": return .all
    default:
      guard let number = Int32(text), number >= 0 else {
        throw FaultSyntaxError(word: String(word), rule: "this, previous, all or a stream id")
      }
      return .number(number)
    }
  }
}
